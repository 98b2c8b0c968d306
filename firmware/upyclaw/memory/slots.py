"""What can be done with the slots of the compact index (store.Table): adding, ending, labels.

Owns: the meaning of its arrays: one slot an item, in record order, and the table of labels (id and
hash). Must not read files.
"""

from array import array

from ..compat import const
from .heat import LIVE

# Slots the arrays grow by. The second time by so many that a full memory needs no more: grown bit
# by bit they would come to lie all over the heap.
_STEP = const(32)
_MOST = const(128)


def add(table):
    """Append an empty live slot and return its number."""
    i = table.n
    if i == len(table.flags):
        step = _MOST if i == _STEP else _STEP
        for a in (table.id_hash, table.offset, table.updated, table.key, table.sig):
            a.extend(array("I", bytes(4 * step)))
        for a in (table.length, table.count):
            a.extend(array("H", bytes(2 * step)))
        table.labels.extend(array("H", bytes(6 * step)))
        table.pending.extend(bytes(step))
        table.flags.extend(bytes(step))
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


def label_at(table, label_id):
    """Place of a label in the label table, -1 if it is not there."""
    for k, other in enumerate(table.label_id):
        if other == label_id:
            return k
    return -1


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


# What the object offers (store.Lazy): by name, because a text is never shortened for the board.
METHODS = {
    "add": add,
    "kill": kill,
    "is_live": is_live,
    "label_at": label_at,
    "find_label": find_label,
    "add_label": add_label,
    "set_labels": set_labels,
    "has_label": has_label,
}
