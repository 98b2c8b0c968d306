"""Direct orders to the memory, obeyed by code: `Remember: bin day is Thursday`, `Forget that ...`.

Owns: carrying out what spot.py recognised, and the sentence that confirms it (B58). Must not call
a model. The sentence exists only when the record is on flash. Every line of the user passes here,
so what only an order needs is loaded when there is one.
"""

from . import drop_all
from .spot import order, sentences
from .text import strip


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

    Raises StorageError: then nothing was stored, and nothing may be confirmed.
    """
    kind, what = order(text)
    answer = None
    if kind == "store":
        answer = _remember(store, what, secrets)
    elif kind == "forget":
        answer = _forget(store, what)
    store.sleep()
    return answer


def _remember(store, what, secrets):
    found = _fact(what, secrets)
    # What recognised the fact leaves the heap before what stores it comes.
    drop_all()
    if found is None:
        return None
    content, label, secret, more = found
    from .label import labels_in_use

    tags = ",".join(labels_in_use(store, content) or [label])
    del labels_in_use
    drop_all()
    how, id, labels = store.store(content, tags, "", "user")
    sentence = ("I knew that: " if how == "same" else "Remembered: ") + store.get(id)["content"]
    if secret:
        sentence += " (This looks like a secret; it is stored as you said it.)"
    return Answer(sentence, () if how == "same" else labels, (content,), more)


def _fact(what, secrets):
    """(fact, a label for it, does it look like a secret, did the line say more) of an order to
    remember; None if it holds no fact."""
    from .filter import why_not
    from .label import label_for
    from .safety import is_order, mask

    # `Remember that I'm vegan. What can I cook?`: the question is not part of the fact.
    pieces = sentences(what)
    fact = [pieces[0][0]] if pieces else []
    rest: list[str] = []
    for piece, mark in pieces[1:]:
        if rest or mark == "?" or why_not(piece) in ("question", "request"):
            rest.append(piece)
        else:
            fact.append(piece)
    if len(fact) == len(pieces):
        fact = [strip(what, " ?？")]
    content = ". ".join(fact)
    if not content or is_order(content):
        # How the assistant shall be is the profile's matter: the model has a tool for it.
        return None
    for secret in secrets:
        if secret and len(secret) >= 4:
            content = content.replace(secret, "***")
    return content, label_for(content), mask(content) != content, bool(rest)


def _forget(store, what):
    from .match import only_match
    from .recall import search
    from .terms import terms

    id = only_match(store, what)
    if id:
        labels = store.forget(id)
        return Answer("Forgotten: 1 memory.", labels or ())
    found = search(store.open(), what, 3)
    if not found:
        return Answer("Nothing is stored about that.") if terms(what) else None
    lines = ["Not clear which one is meant:"]
    for slot, _ in found:
        lines.append("{}: {}".format(store.id_of(slot), store.text_of(slot, b"content")))
    lines.append("Say /memory forget ID.")
    return Answer("\n".join(lines))
