"""memory_recall and memory_list: items as JSON.

Owns: the form of items in an answer, and its bounds: a long list says how much is left.
"""

from ..compat import const
from . import record
from .toolwork import free

# Bytes of items in one answer.
_ANSWER = const(5120)
_LABELS = const(2048)


def look(name, store, args):
    """Carry out the call `name`; the answer as JSON text."""
    return _list(store, args) if name == "memory_list" else _recall(store, args)


def _render(store, slot):
    """One item as JSON, keys in the reference's order, with its labels."""
    from . import render

    item = store.item(slot)
    pinned = item["pinned"]
    item["pinned"] = False
    line = render.to_line(item).decode()
    labels = ",".join([render.quote(label) for label in record.labels_of(item["tags"])])
    end = ',"pinned":true}' if pinned else "}"
    return line[:-1] + ',"summary_labels":[' + labels + "]" + end


def _bounded(store, slots):
    """JSON of as many items as an answer takes, at least one: (list of str)."""
    items: list[str] = []
    n = 0
    for slot in slots:
        text = _render(store, slot)
        n += len(text.encode())
        if items and n > _ANSWER:
            break
        items.append(text)
    return items


def _recall(store, args):
    limit = args.get("limit")
    limit = limit if isinstance(limit, int) and 0 < limit < 8 else 8
    labels = args.get("summary_labels")
    if isinstance(labels, str):
        labels = record.split_terms(labels)
    labels = [v for v in labels if isinstance(v, str) and v] if isinstance(labels, list) else []
    query = args.get("query")
    if isinstance(query, str) and query.strip() and not labels:
        slots = store.search(query, limit)
        # The code of the search goes before that of the answer comes.
        free()
    else:
        labels = labels[:3]
        known = [label for _, label, _ in store.labels()]
        for label in labels:
            if label not in known:
                return _unknown(store, label)
        slots = store.recall(labels, limit)
    return '{"ok":true,"action":"memory_recall","changed":true,"items":[%s]}' % ",".join(
        _bounded(store, slots)
    )


def _unknown(store, label):
    """The answer to an unknown label: the catalogue, labels of the hottest items first."""
    from . import render

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
        % (render.quote(label), ",".join([render.quote(name) for name in labels]))
    )


def _list(store, args):
    offset = args.get("offset")
    offset = offset if isinstance(offset, int) and offset > 0 else 0
    slots = store.slots()
    items = _bounded(store, slots[offset:])
    left = len(slots) - offset - len(items)
    return '{"ok":true,"action":"memory_list","changed":false,"items":[%s]%s}' % (
        ",".join(items),
        ',"more":%d' % left if left > 0 else "",
    )
