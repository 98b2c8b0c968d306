"""Storing and changing items: first what a fact is to the others, then the change.

Owns: the order of these steps. The first is relate.py, the second change.py. Each function is a
method of MemoryStore (store.py). Loaded when one is called.
"""

from ..compat import const
from . import drop_all, unwanted
from .cuts import clean, cut

# As in record.py, which would cost the heap of its code.
_CONTENT = const(255)


def store(memory, content, tags="", keywords="", source="manual", memory_id=""):
    """Store a fact. Returns (how, id, labels); it is on flash when this returns.

    how: "new"; "refined" (an item said less and now says this); "same" (known: only
    refreshed). An existing `memory_id` is updated. Texts are shortened to the field limits.
    ValueError if `content` is empty.
    """
    memory.writable()
    content = _content(content)
    table = memory.table
    if table.n == len(table.flags) > table.live:
        # In place of growing: the arrays of a full memory stay as they are, and where they are.
        table.squeeze()
    if memory_id:
        from .render import normal_id

        memory_id = normal_id(memory_id)
        del normal_id
        if memory_id and memory.find(memory_id) >= 0:
            changed, labels = update(memory, memory_id, content, tags, keywords, source)
            return ("refined" if changed else "same"), memory_id, labels
    found = _relate(memory, content, -1)
    from . import change

    return change.store(memory, content, tags, keywords, source, memory_id, found)


def update(memory, id, content="", tags="", keywords="", source=""):
    """Change an item; empty fields stay. The id and the counts stay too.

    Returns (changed, labels), or None if there is no such item. Another item that says exactly
    the new content is joined with this one.
    """
    memory.writable()
    slot = memory.find(id)
    if slot < 0:
        return None
    content = _content(content or memory.text_of(slot, b"content"))
    found = _relate(memory, content, slot)
    from . import change

    return change.update(memory, slot, content, tags, keywords, source, found)


def _content(content):
    content = cut(clean(content), _CONTENT).strip(" ")
    if not content:
        raise ValueError("content is required")
    return content


def _relate(memory, content, but):
    """relate.relate. Nothing else is loaded meanwhile, and its code is gone before that of the
    change comes: beside a turn a chip has no room for both."""
    unwanted("core", "slots", "rank", "record")
    drop_all()
    from .relate import relate

    found = relate(memory, content, but)
    del relate
    unwanted("relate", "keys", "norm", "text", "contents")
    drop_all()
    return found


# What the object offers (store.Lazy): by name, because a text is never shortened for the board.
METHODS = {"store": store, "update": update}
