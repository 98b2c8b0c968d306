"""Reading a memory folder into a store, and setting aside what is damaged in it.

Owns: the walk over memory_records.jsonl, the replay of counted accesses from the digest, and what
becomes of lines and files that cannot be read (SPEC-longterm §5, WEAKNESSES 7-9, B55). Loaded at
start only. Nothing readable is ever dropped; what is not goes to `*.bad` and the user is told.
"""

from ..storage.files import StorageError, discard, make_dirs, replace, size, wrap
from . import record
from .cuts import hash30
from .heat import PINNED
from .keys import keys
from .store import Table


def load(store):
    """Fill `store.table` from the folder. Raises StorageError only if the flash itself fails."""
    store.table = Table()
    store.last_id = (0, 0)
    store.torn = False
    if not store.readonly:
        if make_dirs(store.root):
            store.notice("A file stood where the memory folder belongs; it is kept as memory.bad.")
        for name in (
            "memory_records.jsonl",
            "memory_index.json",
            "MEMORY.md",
            "memory_digest.log",
        ):
            discard(store.root + "/" + name + ".new")
    bad, late = _read_lines(store)
    _read_index(store)
    for slot, line in store.lines(late) if late else ():
        item = record.from_line(line)
        store.table.set_labels(slot, _label_ids(store.table, item, True)[0])
    from .replay import replay

    replay(store)
    # The derived files may be older than the records (a cut before the last idle time).
    store.stale = max(store.stale, 1)
    if store.readonly:
        return
    if bad:
        from .mending import set_aside

        bad = set_aside(store)
    if bad or store.table.live > store.limit:
        from .compact import compact

        try:
            compact(store)
        except StorageError as e:
            store.notice(str(e))


def _read_lines(store):
    """Index every line. Returns (number of unreadable lines, slots with labels without an id)."""
    table = store.table
    at = bad = dead = 0
    late: list[int] = []
    try:
        f = open(store.path, "rb")
    except OSError as e:
        if size(store.path) >= 0:
            raise wrap(e, store.path)
        store.bytes = store.waste = 0
        return 0, late
    try:
        while True:
            line, n = next_line(f)
            if not n:
                break
            torn = not line or line[-1] != 10
            body = len(line) if torn else len(line) - 1
            item = record.from_line(memoryview(line)[:body]) if line else None
            if item:
                dead += _take(store, table, item, at, body, late)
            elif line and not line.strip():
                dead += n
            else:
                from .mending import split

                found, broken = split(line)
                bad += broken
                dead += n
                for start, length, item in found:
                    # Each counts a line end of its own.
                    dead += _take(store, table, item, at + start, length, late) - length - 1
            store.torn = torn
            at += n
    except OSError as e:
        raise wrap(e, store.path)
    finally:
        f.close()
    store.bytes = at
    store.waste = dead
    return bad, late


def next_line(f):
    """(line, its length); the line is empty if it is longer than any of ours, whatever it is."""
    line = f.readline(512)
    n = len(line)
    while len(line) < record.LINE_READ and n and n % 512 == 0 and line[-1] != 10:
        more = f.readline(512)
        if not more:
            break
        line += more
        n += len(more)
    if len(line) < record.LINE_READ or line[-1] == 10:
        return line, n
    while True:
        more = f.readline(512)
        n += len(more)
        if len(more) < 512 or more[-1] == 10:
            # The end of the file, or of the line: either way it is over.
            return b"", n


def _take(store, table, item, at, body, late):
    """Put one read item into the table; returns the bytes that are dead because of it."""
    number = _number_of(item["id"])
    if number > store.last_id:
        store.last_id = number
    h = hash30(item["id"])
    slot = -1
    for i in range(table.n):
        if table.id_hash[i] == h and table.is_live(i) and store.id_of(i) == item["id"]:
            slot = i
            break
    for label_id in item["summary_ids"]:
        if label_id >= table.next_label:
            table.next_label = label_id + 1
    if item["deleted"]:
        if slot < 0:
            return body + 1
        dead = table.length[slot] + body + 2
        table.kill(slot)
        return dead
    dead = 0
    if slot < 0:
        slot = table.add()
    else:
        # The last line of an id counts, at the place of the first.
        dead = table.length[slot] + 1
    table.id_hash[slot] = h
    table.offset[slot] = at
    table.length[slot] = body
    table.updated[slot] = item["updated_at"]
    table.count[slot] = item["access_count"]
    table.key[slot], table.sig[slot] = keys(item["content"])
    if item["pinned"]:
        table.flags[slot] |= PINNED
    else:
        table.flags[slot] &= ~PINNED & 0xFF
    ids, complete = _label_ids(table, item, False)
    table.set_labels(slot, ids)
    if not complete and slot not in late:
        late.append(slot)
    return dead


def _number_of(id):
    """(seconds, number) of an id the store made, else (0, 0)."""
    parts = id.split("-")
    if len(parts) == 3 and parts[0] == "mem" and parts[1].isdigit() and parts[2].isdigit():
        seconds = int(parts[1])
        if seconds <= 0xFFFFFFFF:
            return seconds, int(parts[2]) % 10000
    return 0, 0


def _label_ids(table, item, make):
    """(label ids, all found) of an item: known ones, those its line names, new ones if `make`."""
    ids = []
    complete = True
    recorded = item["summary_ids"]
    for k, label in enumerate(record.labels_of(item["tags"])):
        h = hash30(label)
        found = table.find_label(h)
        if not found:
            wanted = recorded[k] if k < len(recorded) else 0
            if make or (wanted and table.label_at(wanted) < 0):
                found = table.add_label(h, wanted)
        if found:
            ids.append(found)
        else:
            complete = False
    return ids, complete


def find_number(path, key):
    """The integer after `"key":` in the JSON file `path`, found without parsing it; -1 if none."""
    mark = b'"' + key.encode() + b'":'
    window = b""
    try:
        with open(path, "rb") as f:
            while True:
                piece = f.read(256)
                window += piece
                at = window.find(mark)
                # The number must lie in the window whole.
                if at >= 0 and (not piece or len(window) - at > len(mark) + 12):
                    n = -1
                    for c in window[at + len(mark) :]:
                        if 48 <= c <= 57:
                            n = max(n, 0) * 10 + c - 48
                        elif n >= 0 or c != 32:
                            break
                    return n
                if not piece:
                    return -1
                if at < 0:
                    window = window[-len(mark) :]
    except OSError:
        return -1


def _index_is_whole(path, n):
    """True if the file looks like a JSON object written to its end."""
    try:
        with open(path, "rb") as f:
            head = f.read(1)
            f.seek(max(0, n - 16))
            tail = f.read(16).strip()
    except OSError:
        return False
    return head == b"{" and tail[-1:] == b"}" and find_number(path, "next_summary_id") > 0


def _read_index(store):
    """Take the two numbers that only memory_index.json has; the rest of it is made anew."""
    path = store.root + "/memory_index.json"
    n = size(path)
    store.journal.mark = 0
    if n < 0:
        return
    if not _index_is_whole(path, n):
        if not store.readonly:
            try:
                replace(path, path + ".bad")
            except OSError:
                discard(path)
        store.notice("memory_index.json was damaged; it is kept as *.bad and made anew.")
        return
    table = store.table
    table.next_label = max(table.next_label, min(find_number(path, "next_summary_id"), 65535))
    store.journal.mark = max(0, find_number(path, "last_compact_digest_size"))
