"""The accesses that were counted since the records were last written whole.

Owns: reading them from the digest (SPEC-longterm §6). Must not change a file. Loaded at start
only.
"""

from array import array

from ..compat import const
from ..storage.files import size
from .cuts import hash30
from .heat import LIVE

# A foreign digest may be of any length: so much of its end is looked at.
_DIGEST_TAIL = const(65536)


def replay(store):
    """Add the accesses that were counted since the records were last written whole."""
    journal = store.journal
    table = store.table
    journal.bytes = max(0, size(journal.path))
    start = journal.mark if journal.mark <= journal.bytes else 0
    start = max(start, journal.bytes - _DIGEST_TAIL)
    counts = array("H", bytes(2 * table.n))
    times = array("I", bytes(4 * table.n))
    try:
        f = open(journal.path, "rb")
    except OSError:
        return
    try:
        f.seek(start)
        at = start
        while True:
            line = f.readline(256)
            if not line:
                break
            parts = line.strip().split(b"\t")
            if len(parts) > 2 and parts[0].isdigit():
                if parts[1] == b"compact":
                    journal.mark = at
                    for i in range(table.n):
                        counts[i] = times[i] = 0
                elif parts[1] in (b"recall", b"refresh", b"update"):
                    _replay_line(table, parts, counts, times)
            at += len(line)
    except OSError:
        pass
    finally:
        f.close()
    for i in range(table.n):
        table.count[i] = min(65535, table.count[i] + counts[i])
        if times[i] > table.updated[i]:
            table.updated[i] = times[i]


def _replay_line(table, parts, counts, times):
    h = hash30(parts[2])
    for i in range(table.n):
        if table.id_hash[i] == h and table.flags[i] & LIVE:
            if parts[1] == b"update":
                # The record itself holds all accesses up to here.
                counts[i] = times[i] = 0
                return
            if parts[1] == b"recall" and counts[i] < 65535:
                counts[i] += 1
            seconds = int(parts[0])
            if seconds <= 0xFFFFFFFF:
                times[i] = max(times[i], seconds)
            return
