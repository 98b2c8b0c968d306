"""The gates for orders and secrets: which candidates are orders, and facts without their secrets.

Owns: where safety.py is asked between a reply and the store (B30, B31). A step of its own: beside
the words that grounding needs (checks.py) its lists would not fit the chip.
"""

from ..compat import const
from .cuts import clean, cut
from .safety import is_order, mask

_CONTENT = const(255)


def orders(memories):
    """For each entry of a reply: is its content an order to the assistant?"""
    found = []
    for entry in memories:
        text = entry.get("content") if isinstance(entry, dict) else None
        found.append(isinstance(text, str) and is_order(clean(text)))
    return found


def masked(fact, secrets):
    """A fact of `checks.check` with its secrets masked, its content at most 255 bytes."""
    content, tags, keywords, same, replaces = fact
    return (
        cut(mask(content, secrets), _CONTENT),
        mask(tags, secrets),
        mask(keywords, secrets),
        same,
        replaces,
    )
