"""What MemoryStore can do: looking at items; changes are passed on to change.py.

Owns: reading the record file through the compact index, ranking, recall, the label list. Each
function is a method of MemoryStore (store.py), whose data it works on. Loaded when one is called.
"""

from ..compat import const, ticks_ms
from ..storage.files import StorageError
from . import drop, heat, record
from .heat import PINNED
from .text import hash30

RECALL_LIMIT = const(8)
_CATALOGUE = const(2048)


def now(memory):
    """Seconds to write as a time: the clock's, or the newest known while it is unset (B08)."""
    now = memory.clock()
    return now if now else memory.table.newest(0)


def lines(memory, slots):
    """Yield (slot, memoryview of its line) for `slots`; a view is valid until the next one."""
    table = memory.table
    buf = bytearray(1024)
    for i in slots:
        n = table.length[i]
        if n > len(buf):
            buf = bytearray(n)
        view = memoryview(buf)[:n]
        memory.read(i, view)
        yield i, view


def line(memory, slot):
    """The line of the item in `slot`."""
    line = bytearray(memory.table.length[slot])
    memory.read(slot, line)
    return line


def item(memory, slot):
    """The item in `slot` as a dict, its counts up to date."""
    table = memory.table
    item = record.from_line(memory.line(slot))
    if item is None:
        raise StorageError("memory_records.jsonl changed under us: restart the board.")
    item["access_count"] = table.count[slot]
    item["updated_at"] = max(item["updated_at"], table.updated[slot])
    item["summary_ids"] = [i for i in table.labels[slot * 3 : slot * 3 + 3] if i]
    item["pinned"] = table.flags[slot] & PINNED != 0
    return item


def text_of(memory, slot, key):
    """One text field (`b"content"`, `b"tags"`, `b"keywords"`) of the item in `slot`."""
    return record.field(memory.line(slot), key)


def id_of(memory, slot):
    """The id of the item in `slot`."""
    line = bytearray(min(64, memory.table.length[slot]))
    memory.read(slot, line)
    return record.peek(line, b"id") or memory.text_of(slot, b"id")


def find(memory, id):
    """Slot of the item with this id, -1 if there is none."""
    table = memory.open().table
    h = hash30(id)
    for i in range(table.n):
        if table.id_hash[i] == h and table.is_live(i) and memory.id_of(i) == id:
            return i
    return -1


def get(memory, id):
    """The item with this id as a dict, or None."""
    slot = memory.find(id)
    return None if slot < 0 else memory.item(slot)


def slots(memory, chosen=None):
    """The slots of all items as an array, hottest first (SPEC-longterm §4)."""
    memory.open()
    return memory.table.ranked(memory.clock(), memory.id_of, chosen)


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
    names = [(label_id, label) for label_id, label, _ in memory.labels()]
    room = _CATALOGUE - sum([len(label.encode()) + 3 for _, label in names])
    more = 0
    if room < 0:
        # Leave out from the cold end, and say so.
        last: dict[int, int] = {}
        for rank, slot in enumerate(memory.slots()):
            for label_id in memory.table.labels[slot * 3 : slot * 3 + 3]:
                last.setdefault(label_id, rank)
        for entry in sorted(names, key=lambda e: -last.get(e[0], 0)):
            if room >= 24:
                break
            names.remove(entry)
            room += len(entry[1].encode()) + 3
            more += 1
    out = "".join(["- {}\n".format(label) for _, label in names])
    return (out + ("(and {} more)\n".format(more) if more else "")).encode()


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


def search(memory, query, limit=RECALL_LIMIT, count=True):
    """Slots of the items that fit `query` best by words (recall.py). Hits count as access."""
    from . import recall as words

    out = [slot for slot, _ in words.search(memory.open(), query, limit)]
    if count:
        for slot in out:
            memory.touch(slot)
    return out


def touch(memory, slot, access=True):
    """See heat.touch."""
    heat.touch(memory, slot, access)


def store(memory, content, tags="", keywords="", source="manual", memory_id=""):
    """Store a fact. Returns (how, id, labels); it is on flash when this returns.

    how: "new"; "refined" (an item said less and now says this); "same" (known: only
    refreshed). An existing `memory_id` is updated. Texts are shortened to the field limits.
    ValueError if `content` is empty.
    """
    from . import change

    out = change.store(memory, content, tags, keywords, source, memory_id)
    drop("change")
    return out


def update(memory, id, content="", tags="", keywords="", source=""):
    """Change an item; empty fields stay. The id and the counts stay too.

    Returns (changed, labels), or None if there is no such item. Another item that says exactly
    the new content is joined with this one.
    """
    from . import change

    out = change.update(memory, id, content, tags, keywords, source)
    drop("change")
    return out


def pin(memory, id, on=True):
    """Pin an item (never evicted) or let it go. False: no such item, or too many pins."""
    from . import change

    out = change.pin(memory, id, on)
    drop("change")
    return out


def forget(memory, id):
    """Forget an item: gone from the records, the index and MEMORY.md when this returns.

    Returns its labels, or None if there is no such item. The digest keeps the id alone (B25).
    """
    from . import change

    out = change.forget(memory, id)
    drop("change")
    return out


def related(memory, content, but=-1):
    """(relation, slot) of the stored item nearest to `content` by the string rule."""
    from . import change

    return change.related(memory.open(), content, but)


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
    "now": now,
    "lines": lines,
    "line": line,
    "item": item,
    "text_of": text_of,
    "id_of": id_of,
    "find": find,
    "get": get,
    "slots": slots,
    "items": items,
    "labels": labels,
    "catalogue": catalogue,
    "recall": recall,
    "search": search,
    "touch": touch,
    "store": store,
    "update": update,
    "pin": pin,
    "forget": forget,
    "related": related,
    "flush": flush,
}
