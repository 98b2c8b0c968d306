"""Which items are hot: times that can be believed, and what a recall does to an item.

Owns: the flags of a slot, the trust in clocks (SPEC-longterm §7, B08, B50). Must not read files.
"""

from array import array

from ..compat import const, ticks_ms

LIVE = const(1)
PINNED = const(2)
# Restated since the last digest write: its time is news to the flash.
FRESH = const(4)

# A time before 2020 is that of a clock that was never set (1970, or 2000 on the chip, B08).
_SANE = const(1577836800)
_DAY = const(86400)
# Accesses that wait in RAM at most.
_TOUCHES = const(64)


def sane(seconds, now):
    """True if `seconds` can be true: not before 2020, not a day after `now` (0: unknown)."""
    return seconds >= _SANE and (not now or seconds <= now + _DAY)


def effective(table, now):
    """Times to rank by: `updated`, and for one that cannot be true that of its neighbour.

    So a clock that was never set, or that stood in the future, neither dooms nor crowns an
    item (SPEC-longterm §7, B08, B50).
    """
    out = array("I", table.updated)
    last = first = 0
    for i in range(table.n):
        if not table.flags[i] & LIVE:
            continue
        if sane(out[i], now):
            last = out[i]
            first = first or last
        else:
            out[i] = last
    if first:
        for i in range(table.n):
            if table.flags[i] & LIVE and out[i]:
                break
            out[i] = first
    return out


def touch(memory, slot, access=True):
    """The item was recalled (or restated): newer, and hotter by one access. Costs no erase."""
    table = memory.table
    if memory.readonly:
        return
    now = memory.clock()
    if access and table.count[slot] < 65535:
        table.count[slot] += 1
        if table.pending[slot] < 255:
            table.pending[slot] += 1
    if now > table.updated[slot]:
        table.updated[slot] = now
        table.flags[slot] |= FRESH
    journal = memory.journal
    if not journal.touches:
        journal.since = ticks_ms()
    journal.touches += 1
    if journal.touches >= _TOUCHES:
        journal.flush()
