"""What memory_recall and memory_list answer: items as JSON.

Owns: the form of items in an answer, and its bounds: a long list says how much is left.
"""

from ..compat import collect, const
from . import record
from .render import quote, to_line

# Bytes of an answer: what a tool's result may have.
ROOM = const(4096)
# Bytes of it for what is around the items.
_FRAME = const(96)
_LABELS = const(2048)


def recalled(store, slots, room):
    """The answer of memory_recall, made in `room` (bytearray of ROOM bytes)."""
    n, _ = _fill(store, slots, room, b"recall", b"true")
    return _end(room, n, b"]}")


def listed(store, slots, room):
    """The answer of memory_list."""
    n, shown = _fill(store, slots, room, b"list", b"false")
    left = len(slots) - shown
    return _end(room, n, b'],"more":%d}' % left if left else b"]}")


def unknown_label(store, label):
    """The answer to an unknown label: the catalogue, labels of the hottest items first."""
    labels: list[str] = []
    n = 0
    for slot in store.slots():
        for name in record.labels_of(store.text_of(slot, b"tags")):
            if name not in labels and n < _LABELS:
                labels.append(name)
                n += len(name.encode()) + 3
    return (
        '{"ok":false,"error":"invalid_summary_labels","message":"summary_labels must be copied'
        ' exactly from the list of labels; or use query","invalid_label":%s,'
        '"available_summary_labels":[%s]}'
        % (quote(label), ",".join([quote(name) for name in labels]))
    )


def _render(store, slot):
    """One item as JSON bytes, keys in the reference's order, with its labels."""
    item = store.item(slot)
    pinned = item["pinned"]
    item["pinned"] = False
    labels = ",".join([quote(label) for label in record.labels_of(item["tags"])])
    end = ',"summary_labels":[%s]%s}' % (labels, ',"pinned":true' if pinned else "")
    return to_line(item)[:-1] + end.encode()


def _fill(store, slots, room, what, changed):
    """Write the answer with as many of the items as there is room for, at least one: (bytes of
    it, items). One buffer: a list of texts that are joined would take the room twice."""
    n = _put(room, 0, b'{"ok":true,"action":"memory_%s","changed":%s,"items":[' % (what, changed))
    shown = 0
    for slot in slots:
        collect()
        data = _render(store, slot)
        if shown:
            if n + len(data) + _FRAME > ROOM:
                break
            n = _put(room, n, b",")
        n = _put(room, n, data)
        shown += 1
    return n, shown


def _put(room, n, data):
    room[n : n + len(data)] = data
    return n + len(data)


def _end(room, n, data):
    return memoryview(room)[: _put(room, n, data)]
