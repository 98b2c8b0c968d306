"""What can be done with the compact index (store.Table): slots, labels, heat.

Owns: the meaning of its arrays: one slot an item, in record order, and the table of labels (id and
hash). Must not read files. 32 bytes an item and 6 a label: 128 items with 384 labels take under 8
KB. A label's text is read from the records when it is needed.
"""

from array import array

from ..compat import const
from . import heat
from .heat import LIVE, PINNED

_STEP = const(32)


def add(table):
    """Append an empty live slot and return its number."""
    i = table.n
    if i == len(table.flags):
        for a in (table.id_hash, table.offset, table.updated, table.key, table.sig):
            a.extend(array("I", bytes(4 * _STEP)))
        for a in (table.length, table.count, table.labels, table.labels, table.labels):
            a.extend(array("H", bytes(2 * _STEP)))
        table.pending.extend(bytes(_STEP))
        table.flags.extend(bytes(_STEP))
    table.n = i + 1
    table.live += 1
    table.flags[i] = LIVE
    table.pending[i] = 0
    table.updated[i] = table.count[i] = 0
    return i


def kill(table, i):
    """Mark slot `i` dead."""
    if table.flags[i] & LIVE:
        table.flags[i] = 0
        table.pending[i] = 0
        table.live -= 1


def is_live(table, i):
    """True if slot `i` holds an item."""
    return table.flags[i] & LIVE != 0


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


def label_at(table, label_id):
    """Place of a label in the label table, -1 if it is not there."""
    for k, other in enumerate(table.label_id):
        if other == label_id:
            return k
    return -1


def label_uses(table):
    """(number of live items, first such slot) of each label, as two arrays by place."""
    ids = list(table.label_id)
    refs = array("H", bytes(2 * len(ids)))
    first = array("H", bytes(2 * len(ids)))
    for i in range(table.n):
        if table.flags[i] & LIVE:
            for label_id in table.labels[i * 3 : i * 3 + 3]:
                if label_id:
                    k = ids.index(label_id)
                    if not refs[k]:
                        first[k] = i
                    refs[k] += 1
    return refs, first


def find_label(table, label_hash):
    """Id of the label with this hash, 0 if there is none."""
    for k in range(len(table.label_id)):
        if table.label_hash[k] == label_hash:
            return table.label_id[k]
    return 0


def add_label(table, label_hash, wanted=0):
    """Id of the label, made if new; `wanted` (a recorded id) is taken if it is free."""
    found = table.find_label(label_hash)
    if found:
        return found
    if not wanted or table.label_at(wanted) >= 0:
        wanted = table.next_label
        while wanted > 65534 or table.label_at(wanted) >= 0:
            wanted = wanted + 1 if wanted < 65534 else 1
    table.label_id.append(wanted)
    table.label_hash.append(label_hash)
    if wanted >= table.next_label:
        table.next_label = wanted + 1
    return wanted


def set_labels(table, i, ids):
    """Give slot `i` the label ids `ids`."""
    for k in range(3):
        table.labels[i * 3 + k] = ids[k] if k < len(ids) else 0


def has_label(table, i, label_id):
    """True if slot `i` carries the label."""
    k = i * 3
    return label_id in (table.labels[k], table.labels[k + 1], table.labels[k + 2])


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
    "add": add,
    "kill": kill,
    "is_live": is_live,
    "pinned": pinned,
    "squeeze": squeeze,
    "label_at": label_at,
    "label_uses": label_uses,
    "find_label": find_label,
    "add_label": add_label,
    "set_labels": set_labels,
    "has_label": has_label,
    "effective": effective,
    "newest": newest,
    "coldest": coldest,
    "ranked": ranked,
}
