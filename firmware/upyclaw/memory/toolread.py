"""memory_recall and memory_list: which items are meant.

Owns: what the arguments mean. The answer is made in toolshow.py, once the code of the search is
gone: a chip has no room for both.
"""

from ..compat import const
from .toolwork import free

_ROOM = const(4096)  # bytes of an answer, see toolshow.py


def look(name, store, args):
    """Carry out the call `name`; the answer as JSON text."""
    unknown = ""
    if name == "memory_list":
        slots = store.slots()
        slots = slots[_number(args, "offset", len(slots)) :]
    else:
        slots, unknown = _recall(store, args)
    free()
    if unknown:
        from .toolshow import unknown_label

        return unknown_label(store, unknown)
    # First of all, while there is a piece of the heap that long.
    room = bytearray(_ROOM)
    from .toolshow import listed, recalled

    return (listed if name == "memory_list" else recalled)(store, slots, room)


def _number(args, name, most):
    value = args.get(name)
    return min(value, most) if isinstance(value, int) and value > 0 else 0


def _recall(store, args):
    """(slots, the first label that does not exist or "")."""
    limit = _number(args, "limit", 8) or 8
    labels = args.get("summary_labels")
    if isinstance(labels, str):
        from .record import split_terms

        labels = split_terms(labels)
    labels = [v for v in labels if isinstance(v, str) and v] if isinstance(labels, list) else []
    query = args.get("query")
    if isinstance(query, str) and query.strip() and not labels:
        return store.search(query, limit), ""
    labels = labels[:3]
    for label in labels:
        if not store.carried(label):
            return (), label
    return store.recall(labels, limit), ""
