"""What MemoryStore does most: looking at items. The rest is in storing.py and more.py.

Owns: reading the record file through the compact index. Each function is a method of MemoryStore
(store.py), whose data it works on. Loaded when one is called.
"""

from ..storage.files import StorageError
from . import heat, record
from .cuts import hash30
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


def writable(memory):
    """Open the store for a change; StorageError if it is for reading only."""
    if memory.readonly:
        raise StorageError("This memory was opened for reading only.")
    memory.open()


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
    "writable": writable,
}
