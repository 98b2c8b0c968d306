"""Which stored item a text means.

Owns: when that is clear enough to change or forget one (docs/memory.md, "Gates"; B25). Must not
change the store.
"""

from .contents import content_of
from .recall import search
from .terms import STOP, shares, terms
from .text import fold, strip


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


def says_same(store, id, content):
    """True if `content` may say what the item `id` says: the same matter, and no number or name
    that the item lacks. A model that calls a changed number known would lose the change."""
    if not same_matter(store, id, content):
        return False
    old = store.get(id)["content"]
    for number in _numbers(content):
        if number not in _numbers(old):
            return False
    known = fold(old)
    for word in content.split()[1:]:
        name = strip(word)
        if "A" <= name[:1] <= "Z" and " " + fold(name) + " " not in STOP:
            if fold(name) not in known:
                return False
    return True


def _numbers(text):
    """The runs of digits in `text`, as bytes."""
    data = text.encode() + b" "
    found = []
    start = -1
    for i, c in enumerate(data):
        if 48 <= c <= 57:
            start = i if start < 0 else start
        elif start >= 0:
            found.append(data[start:i])
            start = -1
    return found
