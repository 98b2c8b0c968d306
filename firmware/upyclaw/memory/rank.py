"""The compact index as a whole (store.Table): order, eviction, use of labels, squeezing.

Owns: which item is hotter (SPEC-longterm §4, §7). Must not read files.
"""

from array import array

from . import heat
from .heat import LIVE, PINNED


def pinned(table):
    """Number of pinned items."""
    n = 0
    for i in range(table.n):
        n += table.flags[i] & PINNED != 0
    return n


def squeeze(table):
    """Take the dead slots and the labels without items out."""
    to = 0
    for i in range(table.n):
        if table.flags[i] & LIVE:
            if to != i:
                for a in (
                    table.id_hash,
                    table.offset,
                    table.length,
                    table.updated,
                    table.count,
                    table.key,
                    table.sig,
                    table.pending,
                    table.flags,
                ):
                    a[to] = a[i]
                for k in range(3):
                    table.labels[to * 3 + k] = table.labels[i * 3 + k]
            to += 1
    table.n = to
    ids = array("H")
    hashes = array("I")
    refs, _ = table.label_uses()
    for k in range(len(refs)):
        if refs[k]:
            ids.append(table.label_id[k])
            hashes.append(table.label_hash[k])
    table.label_id = ids
    table.label_hash = hashes


def label_uses(table):
    """(number of live items, first such slot) of each label, as two arrays by place."""
    # As bytes, two each, low one first: a list would be a kilobyte in one piece.
    ids = bytes(table.label_id)
    refs = array("H", bytes(len(ids)))
    first = array("H", bytes(len(ids)))
    for i in range(table.n):
        if table.flags[i] & LIVE:
            for label_id in table.labels[i * 3 : i * 3 + 3]:
                if label_id:
                    wanted = bytes((label_id & 255, label_id >> 8))
                    k = ids.find(wanted)
                    while k & 1:
                        k = ids.find(wanted, k + 1)
                    k >>= 1
                    if not refs[k]:
                        first[k] = i
                    refs[k] += 1
    return refs, first


def effective(table, now):
    """See heat.effective."""
    return heat.effective(table, now)


def newest(table, now):
    """The newest time that can be true, 0 if none is."""
    best = 0
    for i in range(table.n):
        if table.flags[i] & LIVE and table.updated[i] > best and heat.sane(table.updated[i], now):
            best = table.updated[i]
    return best


def coldest(table, now, keep=-1):
    """(slot, score) of the item to evict: the lowest count*3 + hours, the earliest on a tie.

    Never a pinned one nor `keep`; slot -1 if nothing is left to choose from.
    """
    times = table.effective(now)
    best = -1
    low = 0
    for i in range(table.n):
        if table.flags[i] & (LIVE | PINNED) != LIVE or i == keep:
            continue
        score = table.count[i] * 3 + times[i] // 3600
        if best < 0 or score < low:
            best = i
            low = score
    return best, low


def ranked(table, now, id_of, chosen=None):
    """Live slots as an array, hottest first: count and time descending, id ascending.

    `id_of(slot)` gives an id, asked on ties only; `chosen(slot)` filters.
    """
    times = table.effective(now)
    order = array("H")
    for i in range(table.n):
        if not table.flags[i] & LIVE or (chosen and not chosen(i)):
            continue
        low = 0
        high = len(order)
        while low < high:
            mid = (low + high) // 2
            j = order[mid]
            d = table.count[i] - table.count[j] or times[i] - times[j]
            if d > 0 or (d == 0 and id_of(i).encode() < id_of(j).encode()):
                high = mid
            else:
                low = mid + 1
        order.append(i)
        order[low + 1 :] = order[low:-1]
        order[low] = i
    return order


# What the object offers (store.Lazy): by name, because a text is never shortened for the board.
METHODS = {
    "pinned": pinned,
    "squeeze": squeeze,
    "label_uses": label_uses,
    "effective": effective,
    "newest": newest,
    "coldest": coldest,
    "ranked": ranked,
}
