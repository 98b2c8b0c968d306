"""Direct orders to the memory, obeyed by code: `Remember: bin day is Thursday`, `Forget that ...`.

Owns: carrying out what spot.py recognised, and the sentence that confirms it (B58). Must not call
a model. The sentence exists only when the record is on flash. Every line of the user passes here,
so what only an order needs is loaded when there is one.
"""

from . import drop_all


class Answer:
    """What was done: `sentence` for the user, `labels` that changed, `facts` stored, and `more`:
    the line held something else besides, so the model has still to answer."""

    def __init__(self, sentence, labels=(), facts=(), more=False):
        self.sentence = sentence
        self.labels = labels
        self.facts = facts
        self.more = more


def obey(store, text, secrets=()):
    """Carry out the order in the user's line. Returns an Answer, or None if there is none.

    Raises StorageError: then nothing was stored, and nothing may be confirmed. What each step has
    loaded goes before the next: they do not fit the chip together.
    """
    kind, what = _recognised(text)
    answer = None
    if kind:
        drop_all()
        answer = _remember(store, what, secrets) if kind == "store" else _forget(store, what)
    store.sleep()
    return answer


def _recognised(text):
    from .spot import order

    return order(text)


def _remember(store, what, secrets):
    fact, more = _divided(what)
    drop_all()
    fact, secret = _safe(fact, secrets)
    drop_all()
    if not fact:
        return None
    tags = ",".join(_labels(store, fact))
    drop_all()
    how, id, labels = store.store(fact, tags, "", "user")
    sentence = ("I knew that: " if how == "same" else "Remembered: ") + store.get(id)["content"]
    if secret:
        sentence += " (This looks like a secret; it is stored as you said it.)"
    return Answer(sentence, () if how == "same" else labels, (fact,), more)


def _divided(what):
    """(the fact, did the line say more): of `I'm vegan. What can I cook?` the question is no
    part of the fact."""
    from .spot import sentences
    from .text import strip

    pieces = sentences(what)
    fact = [pieces[0][0]] if pieces else []
    for piece, mark in pieces[1:]:
        if mark == "?" or _asks_for(piece):
            return ". ".join(fact), True
        fact.append(piece)
    return strip(what, " ?？"), False


def _asks_for(piece):
    from .filter import why_not

    return why_not(piece) in ("question", "request")


def _safe(fact, secrets):
    """(the fact without the board's own keys, does it look like a secret). Empty if it says how
    the assistant shall be: that is the profile's matter, and the model has a tool for it."""
    from .safety import is_order, mask

    if is_order(fact):
        return "", False
    for secret in secrets:
        if secret and len(secret) >= 4:
            fact = fact.replace(secret, "***")
    return fact, mask(fact) != fact


def _labels(store, fact):
    from .label import labels_for

    return labels_for(store, fact)


def _forget(store, what):
    id, near = _meant(store, what)
    drop_all()
    if id:
        labels = store.forget(id)
        return Answer("Forgotten: 1 memory.", labels or ())
    if near is None:
        return None
    if not near:
        return Answer("Nothing is stored about that.")
    lines = ["Not clear which one is meant:"]
    for slot in near:
        lines.append("{}: {}".format(store.id_of(slot), store.text_of(slot, b"content")))
    lines.append("Say /memory forget ID.")
    return Answer("\n".join(lines))


def _meant(store, what):
    """(id, None) of the one item that is meant, else ("", slots that come near); None for those:
    `what` says nothing."""
    from .match import only_match
    from .recall import search
    from .terms import terms

    id = only_match(store, what)
    if id:
        return id, None
    found = [slot for slot, _ in search(store.open(), what, 3)]
    return "", found if found or terms(what) else None
