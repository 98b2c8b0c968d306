"""Which stored item a text means.

Owns: when that is clear enough to change or forget one (docs/memory.md, "Gates"; B25). Must not
change the store.
"""

from .recall import content_of, search
from .terms import shares, terms


def closest(store, content, tags=""):
    """Id of the one item `content` most likely corrects, "" if none shares a word with it."""
    wanted = terms(content)
    for slot, _ in search(store.open(), content + " " + tags, 8):
        if shares(wanted, content_of(store, slot)):
            return store.id_of(slot)
    return ""


def only_match(store, text):
    """Id of the one item that fits `text`, "" if there is none, or another fits as well."""
    found = search(store.open(), text, 2)
    if not found or (len(found) > 1 and found[1][1] * 3 > found[0][1] * 2):
        return ""
    return store.id_of(found[0][0])


def same_matter(store, id, content):
    """True if the item `id` exists and shares a word with `content`."""
    item = store.get(id)
    return bool(item and shares(terms(content), item["content"]))
