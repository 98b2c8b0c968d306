"""What MemoryStore does now and then: lists, labels, recall, changes other than storing.

Owns: the label list. Each function is a method of MemoryStore (store.py). Loaded when one is
called.
"""

from ..compat import const, ticks_ms
from . import drop, record
from .cuts import hash30

RECALL_LIMIT = const(8)
_CATALOGUE = const(2048)


def lines(memory, slots):
    """Yield (slot, memoryview of its line) for `slots`; a view is valid until the next one."""
    table = memory.table
    buf = bytearray(512)
    for i in slots:
        n = table.length[i]
        if n > len(buf):
            buf = bytearray(n)
        view = memoryview(buf)[:n]
        memory.read(i, view)
        yield i, view


def items(memory):
    """Yield all items as dicts, hottest first."""
    for slot in memory.slots():
        yield memory.item(slot)


def labels(memory):
    """Yield (id, label, number of items) of the catalogue, oldest label first."""
    table = memory.open().table
    refs, first = table.label_uses()
    seen = -1
    names: list[str] = []
    for label_id in sorted(table.label_id):
        k = table.label_at(label_id)
        if refs[k]:
            if first[k] != seen:
                seen = first[k]
                names = record.labels_of(memory.text_of(seen, b"tags"))
            for name in names:
                if hash30(name) == table.label_hash[k]:
                    yield label_id, name, refs[k]
                    break


def carried(memory, label):
    """True if an item carries `label`."""
    table = memory.open().table
    label_id = table.find_label(hash30(label))
    for i in range(table.n if label_id else 0):
        if table.is_live(i) and table.has_label(i, label_id):
            return True
    return False


def catalogue(memory):
    """Yield the label list for a prompt: `- <label>` lines, oldest first, at most 2,048 bytes.

    If there are more, those of the hottest items are shown. Kept until the next change,
    because it is sent with every turn.
    """
    memory.open()
    if memory.label_list is None:
        memory.label_list = _list_labels(memory)
    yield memory.label_list or b"(none)\n"


def _list_labels(memory):
    """The lines as bytes. What does not fit is left out from the cold end, and counted."""
    out = bytearray()
    for _, label, _ in memory.labels():
        out.extend(b"- " + label.encode() + b"\n")
        if len(out) > _CATALOGUE:
            break
    else:
        return bytes(out)
    # Too many: mark those of the hottest items until the room is used up.
    table = memory.table
    wanted = bytearray(len(table.label_id))
    room = _CATALOGUE - 24
    for slot in memory.slots():
        names = record.labels_of(memory.text_of(slot, b"tags"))
        for label_id in table.labels[slot * 3 : slot * 3 + 3]:
            k = table.label_at(label_id) if label_id else -1
            if k >= 0 and not wanted[k]:
                for name in names:
                    if hash30(name) == table.label_hash[k] and room > len(name.encode()) + 3:
                        wanted[k] = 1
                        room -= len(name.encode()) + 3
    out = bytearray()
    more = 0
    for label_id, label, _ in memory.labels():
        if wanted[table.label_at(label_id)]:
            out.extend(b"- " + label.encode() + b"\n")
        else:
            more += 1
    out.extend("(and {} more)\n".format(more).encode())
    return bytes(out)


def recall(memory, labels, limit=RECALL_LIMIT):
    """Slots of the hottest items that carry one of `labels` (all items if none is given).

    Unknown labels are ignored unless all are. Each hit counts as one access.
    """
    table = memory.open().table
    ids = [i for i in [table.find_label(hash30(label)) for label in labels] if i]
    if labels and not ids:
        return []
    order = memory.slots(lambda i: not ids or any([table.has_label(i, k) for k in ids]))
    out = list(order[: limit or RECALL_LIMIT])
    for slot in out:
        memory.touch(slot)
    return out


def pin(memory, id, on=True):
    """Pin an item (never evicted) or let it go. False: no such item, or too many pins."""
    memory.writable()
    from . import change

    out = change.pin(memory, id, on)
    drop("change")
    return out


def related(memory, content, but=-1):
    """(relation, slot) of the stored item nearest to `content` by the string rule."""
    from .relate import relate

    return relate(memory.open(), content, but)[:2]


def flush(memory):
    """Bring everything on flash up to date: digest, memory_index.json, MEMORY.md."""
    memory.open()
    if not memory.readonly:
        from .derived import write_derived

        memory.journal.flush()
        write_derived(memory)
        memory.stale = 0
        memory.flushed_at = ticks_ms()
        drop("derived")


# What the object offers (store.Lazy): by name, because a text is never shortened for the board.
METHODS = {
    "lines": lines,
    "items": items,
    "labels": labels,
    "carried": carried,
    "catalogue": catalogue,
    "recall": recall,
    "pin": pin,
    "related": related,
    "flush": flush,
}
