"""memory_index.json and MEMORY.md, made from the records (SPEC-longterm §5).

Owns: the form of the two files. They are never read back as truth (B37), written whole by rename,
and only if they would change. MEMORY.md as bytes is also what `light` mode sends.
"""

from array import array

from ..compat import collect, const
from ..storage.files import close, discard, replace, size, wrap, write_file
from . import record, render
from .cuts import cut, hash30
from .dates import date

_TERM = const(47)


def write_derived(store):
    """Bring both files up to date. Raises StorageError: then each is whole, old or new.

    A file there is no heap for goes: it is made again later, and holds nothing forgotten (B25).
    """
    for path in (store.path, store.journal.path):
        if size(path) < 0:
            write_file(path, b"")
    for name, pieces in (("/memory_index.json", index_pieces), ("/MEMORY.md", markdown_pieces)):
        try:
            _write(store.root + name, lambda: pieces(store))
        except MemoryError:
            collect()
            discard(store.root + name)


def _write(path, pieces):
    if _equal(path, pieces()):
        return
    new = path + ".new"
    f = None
    done = False
    try:
        f = open(new, "wb")
        for piece in pieces():
            f.write(piece)
        f.close()
        replace(new, path)
        done = True
    except OSError as e:
        raise wrap(e, path)
    finally:
        # Out of memory, too: a file left open is closed by the collector, at the wrong moment.
        if not done:
            close(f)
            discard(new)


def _equal(path, pieces):
    """True if the file holds exactly these pieces."""
    try:
        with open(path, "rb") as f:
            for piece in pieces:
                if f.read(len(piece)) != piece:
                    return False
            return not f.read(1)
    except OSError:
        return False


def _terms(line):
    """Index terms of an item's line: its keywords, or its tags."""
    text = record.field(line, b"keywords") or record.field(line, b"tags")
    return [cut(t, _TERM) for t in record.split_terms(text)[:3]]


def index_pieces(store):
    """Yield the bytes of memory_index.json."""
    table = store.table
    yield (
        '{"version":3,"next_summary_id":%d,"last_compact_digest_size":%d,"summaries":['
        % (table.next_label, store.journal.mark)
    ).encode()
    comma = b""
    for label_id, label, refs in store.labels():
        yield comma
        yield (
            '{"summary_id":%d,"label":%s,"ref_count":%d}' % (label_id, render.quote(label), refs)
        ).encode()
        comma = b","
    yield b'],"keyword_index":{'
    live = [i for i in range(table.n) if table.is_live(i)]
    # One hash a term (the index ignores ASCII case), so that no text has to stay in RAM.
    hashes = array("I", bytes(12 * len(live)))
    for k, (_, line) in enumerate(store.lines(live)):
        for j, term in enumerate(_terms(bytes(line))):
            hashes[k * 3 + j] = hash30(_ascii_lower(term)) or 1
    comma = b""
    for k, slot in enumerate(live):
        if not (hashes[k * 3] or hashes[k * 3 + 1] or hashes[k * 3 + 2]):
            continue
        terms = _terms(store.line(slot))
        for j in range(len(terms)):
            h = hashes[k * 3 + j]
            if h:
                yield comma
                yield (render.quote(terms[j]) + ":[").encode()
                inner = b""
                for at in range(k * 3 + j, len(hashes)):
                    if hashes[at] == h:
                        hashes[at] = 0
                        yield inner
                        yield render.quote(store.id_of(live[at // 3])).encode()
                        inner = b","
                yield b"]"
                comma = b","
    yield b"}}"


def _ascii_lower(text):
    # bytes.lower knows ASCII only on both runtimes.
    return text.encode().lower()


def markdown_pieces(store):
    """Yield the bytes of MEMORY.md: labels, then the items, hottest first, in local time."""
    yield b"# Long-term Memory\n\n"
    if not len(store):
        yield b"(empty - Claw will write memories here as it learns)\n"
        return
    first = True
    for _, label, refs in store.labels():
        if first:
            yield b"## Summary Labels\n\n"
        first = False
        yield "- {} (refs={})\n".format(label, refs).encode()
    if not first:
        yield b"\n"
    yield b"## Active Memories\n\n"
    for slot in store.slots():
        line = store.line(slot)
        when = store.table.updated[slot]
        labels = record.labels_of(record.field(line, b"tags"))
        yield "- `{}` {}\n  time={} access={} labels=[{}]\n".format(
            record.field(line, b"id"),
            record.field(line, b"content"),
            date(when + store.zone if when else 0),
            store.table.count[slot],
            ",".join([render.quote(label) for label in labels]),
        ).encode()
