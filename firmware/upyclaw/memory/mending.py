"""What becomes of lines in the records that are no item (WEAKNESSES 7, B55).

Owns: taking glued items apart, and `memory_records.jsonl.bad`. Nothing readable is dropped,
nothing else either: it is set aside. Loaded when there is such a line.
"""

from ..compat import const
from ..storage.files import size
from .load import next_line
from .record import from_line

_BAD_LIMIT = const(65536)


def split(line):
    """([(start, length, item)], broken) of a line that is not one item; broken: 1 if part of it is
    none at all. The reference may have glued two items into one line."""
    found = []
    broken = 0 if line else 1
    end = len(line)
    if end and line[-1] == 10:
        end -= 1
    start = 0
    while start < end:
        stop = line.find(b'}{"', start, end) + 1 or end
        item = from_line(memoryview(line)[start:stop])
        if item:
            found.append((start, stop - start, item))
        else:
            broken = 1
        start = stop
    return found, broken


def set_aside(store):
    """Copy unreadable lines to memory_records.jsonl.bad; True if they may be dropped now."""
    target = store.path + ".bad"
    room = _BAD_LIMIT - max(0, size(target))
    n = 0
    try:
        source = open(store.path, "rb")
        f = None
        try:
            f = open(target, "ab")
            at = 0
            while True:
                line, length = next_line(source)
                if not length:
                    break
                body = line if line[-1:] != b"\n" else line[:-1]
                if not line or (body.strip() and not from_line(body) and split(line)[1]):
                    n += 1
                    if room > length:
                        room -= length + 1
                        _copy(source, at, length, f)
                at += length
        finally:
            source.close()
            if f:
                f.close()
    except OSError:
        store.notice("memory_records.jsonl has damaged lines; there is no room to set them aside.")
        return False
    store.notice(
        "{} damaged line{} of memory_records.jsonl set aside in memory_records.jsonl.bad.".format(
            n, "" if n == 1 else "s"
        )
    )
    return True


def _copy(source, at, length, f):
    """Append `length` bytes from offset `at` of `source` to `f`, ended by a line end."""
    source.seek(at)
    last = b""
    while length:
        piece = source.read(min(length, 256))
        if not piece:
            break
        f.write(piece)
        length -= len(piece)
        last = piece
    if last[-1:] != b"\n":
        f.write(b"\n")
