"""memory_digest.log: who did what to which item, ids only (SPEC-longterm §5).

Owns: the digest file and what waits in RAM for it. Must not know the items' texts. Accesses are
counted in RAM and written with the next change, after 64 of them, or after six hours: a power cut
loses at most those. One `recall` line an access, as the reference reads it.
"""

from ..compat import const, ticks_diff, ticks_ms
from ..storage.files import size
from .table import FRESH

LIMIT = const(16384)
# What compaction leaves of it.
KEEP = const(4096)
_BUFFER = const(768)
_TOUCHES = const(64)
_AGE_MS = const(21600000)


class Journal:
    """The digest of `store`."""

    def __init__(self, store):
        self._store = store
        self.path = store.root + "/memory_digest.log"
        self._lines = bytearray()
        self._touches = 0
        self._since = ticks_ms()
        # Bytes of the file, as last seen.
        self.bytes = 0
        # Where the accesses begin that the records do not hold yet.
        self.mark = 0

    def add(self, action, id, extra=""):
        """Note a change; it reaches the flash with the next flush."""
        line = "%d\t%s\t%s%s\n" % (self._store.now(), action, id, "\t" + extra if extra else "")
        self._lines.extend(line.encode())
        if len(self._lines) > _BUFFER:
            self.flush()

    def touched(self):
        """An access was counted in the table."""
        if not self._touches:
            self._since = ticks_ms()
        self._touches += 1
        if self._touches >= _TOUCHES:
            self.flush()

    def idle(self):
        """Write what has waited for long."""
        if self._touches and ticks_diff(ticks_ms(), self._since) > _AGE_MS:
            self.flush()

    def pieces(self):
        """Yield the waiting bytes: change lines, then a line for each counted access."""
        store = self._store
        table = store.table
        now = store.now()
        yield self._lines
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

    def written(self):
        """What `pieces` gave is on flash."""
        table = self._store.table
        self._lines = bytearray()
        self._touches = 0
        for i in range(table.n):
            table.pending[i] = 0
            table.flags[i] &= ~FRESH & 0xFF

    def flush(self):
        """Append what waits. The digest is no promise: on a full flash it waits on, or goes."""
        if not self._lines and not self._touches:
            return
        try:
            f = open(self.path, "ab")
            try:
                for piece in self.pieces():
                    f.write(piece)
            finally:
                f.close()
        except OSError:
            if len(self._lines) > 2 * _BUFFER:
                self._lines = bytearray()
            return
        self.written()
        self.bytes = max(0, size(self.path))

    def too_long(self):
        """True if the digest has reached its bound: the next compaction shortens it."""
        return self.bytes > LIMIT
