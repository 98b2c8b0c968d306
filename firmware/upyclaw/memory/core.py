"""What MemoryStore does most: looking at one item, storing one. The rest is in more.py.

Owns: reading the record file through the compact index. Each function is a method of MemoryStore
(store.py), whose data it works on. Loaded when one is called.
"""

from ..compat import collect
from ..storage.files import StorageError
from . import drop, heat, record
from .cuts import clean, cut, hash30
from .heat import PINNED


def now(memory):
    """Seconds to write as a time: the clock's, or the newest known while it is unset (B08)."""
    now = memory.clock()
    return now if now else memory.table.newest(0)


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


def touch(memory, slot, access=True):
    """See heat.touch."""
    heat.touch(memory, slot, access)


def store(memory, content, tags="", keywords="", source="manual", memory_id=""):
    """Store a fact. Returns (how, id, labels); it is on flash when this returns.

    how: "new"; "refined" (an item said less and now says this); "same" (known: only
    refreshed). An existing `memory_id` is updated. Texts are shortened to the field limits.
    ValueError if `content` is empty.
    """
    writable(memory)
    content = _content(content)
    if memory_id:
        from .render import normal_id

        memory_id = normal_id(memory_id)
        del normal_id
        drop("render")
        if memory_id and memory.find(memory_id) >= 0:
            changed, labels = update(memory, memory_id, content, tags, keywords, source)
            return ("refined" if changed else "same"), memory_id, labels
    found = _relate(memory, content, -1)
    from . import change

    out = change.store(memory, content, tags, keywords, source, memory_id, found)
    drop("change")
    return out


def update(memory, id, content="", tags="", keywords="", source=""):
    """Change an item; empty fields stay. The id and the counts stay too.

    Returns (changed, labels), or None if there is no such item. Another item that says exactly
    the new content is joined with this one.
    """
    writable(memory)
    slot = memory.find(id)
    if slot < 0:
        return None
    content = _content(content or memory.text_of(slot, b"content"))
    found = _relate(memory, content, slot)
    from . import change

    out = change.update(memory, slot, content, tags, keywords, source, found)
    drop("change")
    return out


def writable(memory):
    """Open the store for a change; StorageError if it is for reading only."""
    if memory.readonly:
        raise StorageError("This memory was opened for reading only.")
    memory.open()


def _content(content):
    content = cut(clean(content), record.CONTENT).strip(" ")
    if not content:
        raise ValueError("content is required")
    return content


def _relate(memory, content, but):
    """relate.relate. Its code is gone before that of the change comes: a chip has no room for
    both beside a turn."""
    from .relate import relate

    found = relate(memory, content, but)
    del relate
    for name in ("relate", "dedupe", "keys", "norm", "text"):
        drop(name)
    collect()
    return found


# What the object offers (store.Lazy): by name, because a text is never shortened for the board.
METHODS = {
    "now": now,
    "line": line,
    "item": item,
    "text_of": text_of,
    "id_of": id_of,
    "find": find,
    "get": get,
    "slots": slots,
    "touch": touch,
    "store": store,
    "update": update,
    "writable": writable,
}
