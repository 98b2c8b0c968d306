"""Forgetting an item for good.

Owns: the order of it. A method of MemoryStore (store.py), loaded when it is called; alone, because
what compaction needs hardly fits beside a turn.
"""

from . import drop, drop_all, record


def forget(memory, id):
    """Forget an item: gone from the records, the index and MEMORY.md when this returns.

    Returns its labels, or None if there is no such item. The digest keeps the id alone (B25).
    """
    memory.writable()
    slot = memory.find(id)
    if slot < 0:
        return None
    # Not the whole item, which is a kilobyte: what comes now needs the heap.
    content = memory.text_of(slot, b"content")
    labels = record.labels_of(memory.text_of(slot, b"tags"))
    from .compact import compact

    compact(memory, slot)
    del compact
    drop("compact")
    memory.journal.add("forget", id)
    memory.journal.flush()
    if memory.on_forget:
        # What compaction needed leaves the heap before the waiting jobs are looked through.
        drop_all()
        memory.on_forget(content)
    return labels
