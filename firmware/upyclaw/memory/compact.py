"""Rewriting the record file: without dead lines, with the counts of today, with at most 128 items.

Owns: compaction, and with it the eviction of foreign surplus and the real end of forgotten items
(SPEC-longterm §6, §7; WEAKNESSES 3, 18, 19). Must not change what an item says.

Order, so that a cut at any point loses nothing: the new records are written and closed; for a
forgotten item MEMORY.md and the index are written without it; the digest gets its mark (a cut now
loses a few counts, never doubles them); the rename of the records is the commit.
"""

from ..compat import const
from ..storage.files import close, discard, replace, wrap
from . import unwanted
from .journal import KEEP, LIMIT

_CHUNK = const(256)


def compact(store, forget=-1):
    """Rewrite the records; `forget` is the slot of an item that must leave no trace.

    Raises StorageError (FlashFull): then the old file and the store are as they were.
    """
    table = store.table
    new = store.path + ".new"
    before = bytes(table.flags), table.live
    gone = []
    kept = False
    try:
        if forget >= 0:
            table.kill(forget)
        while table.live > store.limit:
            slot, score = table.coldest(store.clock())
            if slot < 0:
                break
            why = "score={} access={} lowest of {}".format(score, table.count[slot], table.live)
            gone.append((store.id_of(slot), why))
            table.kill(slot)
        offsets, lengths, total, waste = _rewritten(store, new)
        if forget >= 0:
            _derive(store)
        for id, why in gone:
            store.journal.add("evict", id, why)
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
            table.flags[:] = before[0]
            table.live = before[1]
    table.squeeze()
    for i in range(table.n):
        table.offset[i] = offsets[i]
        table.length[i] = lengths[i]
    store.bytes = total
    store.waste = waste
    store.torn = False
    store.changed()


# Each step gives its code back: together they do not fit beside a turn. Not all of it: the callers
# are still at work, and what they call would be loaded a second time.


def _rewritten(store, path):
    unwanted("core", "slots", "rank")
    from .rewrite import rewrite

    out = rewrite(store, path)
    del rewrite
    unwanted("rewrite", "render")
    return out


def _derive(store):
    from .derived import write_derived

    write_derived(store)
    del write_derived
    unwanted("derived", "dates")


def _mark(journal, now):
    """Write what waits for the digest and the `compact` line; shorten it if it is too long."""
    line = ("%d\tcompact\t-\trebuild=index+markdown\n" % now).encode()
    short = journal.bytes + 1024 > LIMIT
    path = journal.path + ".new" if short else journal.path
    f = None
    done = False
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
        done = True
    except OSError as e:
        raise wrap(e, journal.path)
    finally:
        if not done:
            close(f)
            if short:
                discard(path)
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
