"""What memory_recall and memory_list answer: items as JSON.

Owns: the form of items in an answer, and its bounds: a long list says how much is left.
"""

from ..compat import collect, const

# Bytes of an answer: what a tool's result may have. Less where the heap has no such piece.
_ROOM = const(4096)
_LEAST = const(1536)
# Bytes of it for what is around the items.
_FRAME = const(96)
_LABELS = const(2048)


def show(name, store, slots, detail):
    """The answer to the call `name` about the items in `slots`, as a memoryview. `detail`: the
    items a list leaves out at its beginning; or a label that does not exist, or ""."""
    if name == "memory_recall" and detail:
        return _unknown(store, slots, detail)
    # First of all, while there is a piece of the heap that long. One buffer: texts that are
    # joined would take the room twice.
    size = _ROOM
    while True:
        try:
            room = bytearray(size)
            break
        except MemoryError:
            size //= 2
            if size < _LEAST:
                raise
    if name == "memory_list":
        slots = slots[detail:]
    n = _put(
        room,
        0,
        b'{"ok":true,"action":"%s","changed":%s,"items":['
        % (name.encode(), b"true" if name == "memory_recall" else b"false"),
    )
    n, shown = _fill(store, slots, room, n)
    left = len(slots) - shown
    n = _put(room, n, b'],"more":%d}' % left if left else b"]}")
    return memoryview(room)[:n]


def _fill(store, slots, room, n):
    """Write as many of the items as there is room for, at least one: (bytes so far, items)."""
    shown = 0
    for slot in slots:
        collect()
        data = _render(store, slot)
        if shown:
            if n + len(data) + _FRAME > len(room):
                break
            n = _put(room, n, b",")
        n = _put(room, n, data)
        shown += 1
    return n, shown


def _put(room, n, data):
    room[n : n + len(data)] = data
    return n + len(data)


def _render(store, slot):
    """One item as JSON bytes, keys in the reference's order, with its labels."""
    from .record import labels_of
    from .render import quote, to_line

    item = store.item(slot)
    pinned = item["pinned"]
    item["pinned"] = False
    labels = ",".join([quote(label) for label in labels_of(item["tags"])])
    end = ',"summary_labels":[%s]%s}' % (labels, ',"pinned":true' if pinned else "")
    return to_line(item)[:-1] + end.encode()


def _unknown(store, slots, label):
    """The answer to an unknown label: the catalogue, labels of the hottest items first."""
    from .record import labels_of
    from .render import quote

    labels: list[str] = []
    n = 0
    for slot in slots:
        for name in labels_of(store.text_of(slot, b"tags")):
            if name not in labels and n < _LABELS:
                labels.append(name)
                n += len(name.encode()) + 3
    return (
        '{"ok":false,"error":"invalid_summary_labels","message":"summary_labels must be copied'
        ' exactly from the list of labels; or use query","invalid_label":%s,'
        '"available_summary_labels":[%s]}'
        % (quote(label), ",".join([quote(name) for name in labels]))
    )
