"""Labels for a fact that came without one.

Owns: how they are found or made. Must not change the store.
"""

from .cuts import letters
from .text import fold, is_cjk

# Where a Chinese fact goes on after its subject.
_VERB_CJK = "是在有要喜爱不会住吃喝每对的叫"


def label_for(fact):
    """A label of at most 8 characters for a fact that came without one: its first telling word."""
    for start in ("我的", "我", "用户的", "用户"):
        if fact.startswith(start):
            fact = fact[len(start) :]
            break
    run = ""
    for ch in letters(fact[:12]):
        if not is_cjk(ord(ch)) or (ch in _VERB_CJK and run):
            break
        run += ch
    if len(run) > 1:
        return run[:8]
    from .terms import terms

    telling = terms(fact, 1)
    if telling:
        # The word as it stands, not its stem.
        for word in fact.split():
            word = word.strip(",.:;!?\"'()")
            if fold(word).startswith(telling[0]):
                return word[:8]
        return telling[0][:8]
    return fact[:8]


def labels_in_use(store, content):
    """Up to two labels of the catalogue that occur in `content`."""
    folded = fold(content)
    found: list[str] = []
    for _, label, _ in store.labels():
        if len(found) < 2 and len(label) > 1 and fold(label) in folded:
            found.append(label)
    return found


def labels_for(store, content):
    """Up to two labels for a fact: those in use that occur in it, else its first telling word."""
    return labels_in_use(store, content) or [label_for(content)]
