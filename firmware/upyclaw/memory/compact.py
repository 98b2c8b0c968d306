"""Rewriting the record file: without dead lines, with the counts of today, with at most 128 items.

Owns: compaction, and with it the eviction of foreign surplus and the real end of forgotten items
(SPEC-longterm §6, §7; WEAKNESSES 3, 18, 19). Must not change what an item says.

Order, so that a cut at any point loses nothing: the new records are written and closed; for a
forgotten item MEMORY.md and the index are written without it; the digest gets its mark (a cut now
loses a few counts, never doubles them); the rename of the records is the commit.
"""

from array import array

from ..compat import const, utf8_clean
from ..storage.files import StorageError, close, discard, replace, wrap
from . import record, render
from .heat import LIVE, PINNED
from .journal import KEEP, LIMIT

_CHUNK = const(256)


def compact(store, forget=-1):
    """Rewrite the records; `forget` is the slot of an item that must leave no trace.

    Raises StorageError (FlashFull): then the old file is as it was.
    """
    table = store.table
    new = store.path + ".new"
    kept = False
    try:
        if forget >= 0:
            table.kill(forget)
        while table.live > store.limit:
            slot, score = table.coldest(store.clock())
            if slot < 0:
                break
            why = "score={} access={} lowest of {}".format(score, table.count[slot], table.live)
            store.journal.add("evict", store.id_of(slot), why)
            table.kill(slot)
        offsets, lengths, total, waste = _write(store, new)
        if forget >= 0:
            from .derived import write_derived

            write_derived(store)
        _mark(store.journal, store.now())
        store.release()
        try:
            replace(new, store.path)
        except OSError as e:
            raise wrap(e, store.path)
        kept = True
    finally:
        if not kept:
            discard(new)
            # What is in RAM may differ from the file now: read it again.
            store.bytes = -1
    table.squeeze()
    for i in range(table.n):
        table.offset[i] = offsets[i]
        table.length[i] = lengths[i]
    store.bytes = total
    store.waste = waste
    store.torn = False
    store.changed()


def _write(store, path):
    """Write the live items to `path`. Returns (offsets, lengths, bytes, dead bytes)."""
    table = store.table
    offsets = array("I")
    lengths = array("H")
    total = waste = 0
    # Ids never repeat: the highest one stays known though its item is gone.
    highest = "mem-%d-%04d" % store.last_id
    missing = store.last_id != (0, 0)
    f = None
    try:
        f = open(path, "wb")
        for i, line in store.lines([i for i in range(table.n) if table.flags[i] & LIVE]):
            data = _renewed(table, i, bytes(line))
            if missing and record.field(data, b"id") == highest:
                missing = False
            f.write(data)
            f.write(b"\n")
            offsets.append(total)
            lengths.append(len(data))
            total += len(data) + 1
        if missing:
            data = render.tombstone(highest, 0)
            f.write(data)
            f.write(b"\n")
            waste = len(data) + 1
            total += waste
        f.close()
    except OSError as e:
        close(f)
        raise wrap(e, store.path)
    return offsets, lengths, total, waste


def _renewed(table, i, line):
    """`line` with the counts, times and labels of slot `i`, in the compacted form."""
    ids = [k for k in table.labels[i * 3 : i * 3 + 3] if k]
    at = line.find(b',"updated_at":')
    # Our own lines need no parsing: only the numbers at the end change.
    if (
        record.peek(line, b"id") is not None
        and at > 0
        and line[line.rfind(b":", 0, at) + 1 : at].isdigit()
        and "\ufffd" not in utf8_clean(line)
    ):
        data = (
            line[:at]
            + (
                ',"updated_at":%d,"access_count":%d,"deleted":false,"summary_ids":[%s],'
                '"summary_labels":[]%s}'
                % (
                    table.updated[i],
                    table.count[i],
                    ",".join([str(k) for k in ids]),
                    ',"pinned":true' if table.flags[i] & PINNED else "",
                )
            ).encode()
        )
        if len(data) <= render.LINE:
            return data
    item = record.from_line(line)
    if item is None:
        raise StorageError("memory_records.jsonl changed under us: restart the board.")
    item["access_count"] = table.count[i]
    item["updated_at"] = max(item["updated_at"], table.updated[i])
    item["summary_ids"] = ids
    for key in ("content", "tags", "keywords"):
        item[key] = record.mend(item[key])
    return render.to_line(render.fit(item), True)


def _mark(journal, now):
    """Write what waits for the digest and the `compact` line; shorten it if it is too long."""
    line = ("%d\tcompact\t-\trebuild=index+markdown\n" % now).encode()
    short = journal.bytes + 1024 > LIMIT
    path = journal.path + ".new" if short else journal.path
    f = None
    try:
        f = open(path, "wb" if short else "ab")
        n = 0 if short else journal.bytes
        if short:
            n = _copy_tail(journal, f)
        for piece in journal.pieces():
            f.write(piece)
            n += len(piece)
        f.write(line)
        f.close()
        if short:
            replace(path, journal.path)
    except OSError as e:
        close(f)
        if short:
            discard(path)
        raise wrap(e, journal.path)
    journal.written()
    journal.mark = n
    journal.bytes = n + len(line)


def _copy_tail(journal, f):
    """Copy the last KEEP bytes of the digest, whole lines only; returns their number."""
    n = 0
    with open(journal.path, "rb") as old:
        old.seek(max(0, journal.bytes - KEEP))
        old.readline()
        while True:
            piece = old.read(_CHUNK)
            if not piece:
                return n
            f.write(piece)
            n += len(piece)
