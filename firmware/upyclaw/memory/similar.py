"""What the extraction model is shown of the store: items that come close, and the labels.

Owns: how many. Must not change the store.
"""

from ..compat import const
from . import drop_all

SIMILAR = const(5)


def similar(store, text):
    """[(id, quoted content)] of up to 5 stored items that come close to `text`."""
    slots = _near(store, text)
    drop_all()
    from .quote import quoted

    return [(store.id_of(slot), quoted(store.text_of(slot, b"content"))) for slot in slots]


def _near(store, text):
    from .recall import search

    return [slot for slot, _ in search(store.open(), text, SIMILAR)]


def labels(store):
    """The label list as bytes."""
    return b"".join([piece for piece in store.catalogue()])
