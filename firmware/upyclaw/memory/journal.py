"""memory_digest.log: who did what to which item, ids only (SPEC-longterm §5).

Owns: the digest file and what waits in RAM for it. Must not know the items' texts. Accesses are
counted in RAM and written with the next change, after 64 of them, or after six hours: a power cut
loses at most those. One `recall` line an access, as the reference reads it.
"""

from ..compat import const
from ..storage.files import size
from .heat import FRESH

LIMIT = const(16384)
# What compaction leaves of it.
KEEP = const(4096)
_BUFFER = const(768)


def add(journal, action, id, extra=""):
    """Note a change; it reaches the flash with the next flush."""
    line = "%d\t%s\t%s%s\n" % (journal.store.now(), action, id, "\t" + extra if extra else "")
    journal.waiting.extend(line.encode())
    if len(journal.waiting) > _BUFFER:
        journal.flush()


def pieces(journal):
    """Yield the waiting bytes: change lines, then a line for each counted access."""
    store = journal.store
    table = store.table
    now = store.now()
    yield journal.waiting
    for i in range(table.n):
        if not table.is_live(i) or not (table.pending[i] or table.flags[i] & FRESH):
            continue
        id = store.id_of(i)
        if table.pending[i]:
            line = ("%d\trecall\t%s\taccess_count+1\n" % (now, id)).encode()
            for _ in range(table.pending[i]):
                yield line
        else:
            yield ("%d\trefresh\t%s\n" % (now, id)).encode()


def written(journal):
    """What `pieces` gave is on flash."""
    table = journal.store.table
    journal.waiting = bytearray()
    journal.touches = 0
    for i in range(table.n):
        table.pending[i] = 0
        table.flags[i] &= ~FRESH & 0xFF


def flush(journal):
    """Append what waits. The digest is no promise: on a full flash it waits on, or goes."""
    if not journal.waiting and not journal.touches:
        return
    try:
        f = open(journal.path, "ab")
        try:
            for piece in journal.pieces():
                f.write(piece)
        finally:
            f.close()
    except OSError:
        if len(journal.waiting) > 2 * _BUFFER:
            journal.waiting = bytearray()
        return
    journal.written()
    journal.bytes = max(0, size(journal.path))


def too_long(journal):
    """True if the digest has reached its bound: the next compaction shortens it."""
    return journal.bytes > LIMIT


# What the object offers (store.Lazy): by name, because a text is never shortened for the board.
METHODS = {
    "add": add,
    "pieces": pieces,
    "written": written,
    "flush": flush,
    "too_long": too_long,
}
