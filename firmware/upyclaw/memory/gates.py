"""The gates between a model's reply and the store: what gets in, and why the rest does not.

Owns: the order of the checks, replace and forget (docs/memory.md, "Gates"; SPEC-extract §3-§5;
B25). Must not call a model. The model only judges language: no id, no source and no count is taken
from it unchecked. Each step loads its own code and gives it back: together they would not fit the
chip.
"""

from . import drop_all

# Words by which somebody asks to forget.
_FORGET = (
    "forget|delete|remove|erase|don't remember|do not remember|no longer|not anymore|忘|删|刪"
    "|不要记"
    "|别记|別記|不再|vergiss|lösch|oublie|supprime|olvida|borra|забудь|удали|忘れ|消して|잊어|삭제"
)


class Result:
    """What became of one candidate: `what` is "stored", "refined", "replaced", "same", "forgotten"
    or "dropped"; `why` a few words; `id` the item's, if there is one."""

    def __init__(self, what, why, content="", id="", labels=()):
        self.what = what
        self.why = why
        self.content = content
        self.id = id
        self.labels = labels


def note(labels):
    """The quiet line for the chat, or None: `Memory update: [tea;garden]` (SPEC-extract §6)."""
    return "Memory update: [{}]".format(";".join(labels)) if labels else None


def labels_in(results):
    """Labels of what changed, each once."""
    out: list[str] = []
    for result in results:
        if result.what not in ("same", "dropped"):
            for label in result.labels:
                if label not in out:
                    out.append(label)
    return out


def apply(store, reply, user_text, offered=None, secrets=(), gone=(), known=()):
    """Run a reply through all gates and change `store`. A list of Result, None if unreadable.

    `user_text` is the bare text of the user's turn, the only evidence there is. `offered` are the
    ids the model was shown (None: any). `secrets` are never stored. `gone` are contents that were
    forgotten while the model was thinking, `known` contents that were stored in this very turn.
    """
    from .reply import read_reply

    answer = read_reply(reply)
    if answer is None:
        return None
    intent, memories, forgets = answer
    out: list[Result] = []
    if intent == "forget" or forgets:
        _forget(store, user_text, intent, forgets, offered, out)
    if intent == "forget":
        return out
    del answer, read_reply
    said = _stated(user_text, memories)
    orders = _orders(memories)
    checked = _checked(memories, orders, said, user_text, gone, known, store.clock())
    for why, fact in checked:
        if why:
            out.append(Result("dropped", why, fact))
        else:
            fact = _safe(fact, secrets)
            if not fact[0].strip("*. "):
                out.append(Result("dropped", "nothing but a secret", fact[0]))
                continue
            if "replaced" in [one.what for one in out] and not fact[3] + fact[4]:
                # Beside a correction: a fact of its own, which must not take that one's place.
                intent = "none"
            out.append(_keep(store, fact, said, intent, offered))
    drop_all()
    return out


def _stated(user_text, memories):
    """What the user stated. Weak models copy the question beside it into the fact: it goes."""
    from .asks import statements

    said = statements(user_text)
    for entry in memories[:3]:
        text = entry.get("content") if isinstance(entry, dict) else None
        if isinstance(text, str) and ("?" in text or "\uff1f" in text):
            entry["content"] = statements(text).replace("\n", ", ")
    del statements
    drop_all()
    return said


def _orders(memories):
    from .screen import orders

    found = orders(memories)
    del orders
    drop_all()
    return found


def _checked(*args):
    from .checks import check

    return check(*args)


def _safe(fact, secrets):
    """The fact without secrets, and with a label."""
    drop_all()
    from .screen import masked

    fact = masked(fact, secrets)
    del masked
    drop_all()
    if not fact[1]:
        from .label import label_for

        # Of the masked content: a label must not give away what is hidden there.
        fact = (fact[0], label_for(fact[0])) + fact[2:]
        del label_for
        drop_all()
    return fact


def _keep(store, fact, said, intent, offered):
    content, tags, keywords, same, replaces = fact
    if intent == "replace":
        # What is corrected is named under either word.
        replaces, same = replaces + same, []
    for id in same:
        # A model that calls a new fact known would lose it.
        if (offered is None or id in offered) and _says_same(store, id, content):
            store.touch(store.find(id), False)
            return Result("same", "says the same as a stored item", content, id)
    target = ""
    for id in replaces:
        if (offered is None or id in offered) and store.get(id):
            target = id
            break
    if not target and intent == "replace":
        target = _corrected(store, content, tags, said)
    if target:
        how, slot = store.related(content)
        if how == "same" and store.id_of(slot) != target:
            # The correction is stored already: end what it corrects.
            id = store.id_of(slot)
            labels = store.forget(target)
            return Result("replaced", "was known; the old one is forgotten", content, id, labels)
        changed, labels = store.update(target, content, tags, keywords, "auto_llm")
        if changed:
            why = "takes the place of the item it corrects"
            return Result("replaced", why, content, target, labels)
        return Result("same", "known", content, target)
    how, id, labels = store.store(content, tags, keywords, "auto_llm")
    if how == "same":
        return Result("same", "known", content, id)
    if how == "new":
        return Result("stored", "new", content, id, labels)
    return Result("refined", "adds to an item", content, id, labels)


def _says_same(store, id, content):
    from .match import says_same

    return says_same(store, id, content)


def _corrected(store, content, tags, said):
    """What is corrected shares words with the correction, or with what the user said of it."""
    from .match import closest, only_match

    target = closest(store, content, tags) or only_match(store, said)
    del closest, only_match
    drop_all()
    return target


def _forget(store, user_text, intent, ids, offered, out):
    from .match import only_match, same_matter
    from .text import fold

    folded = fold(user_text)
    asked = any([word in folded for word in _FORGET.split("|")])
    found = []
    for id in ids:
        if (offered is not None and id not in offered) or not store.get(id):
            out.append(Result("dropped", "no such item: " + id))
        elif asked or (intent == "forget" and same_matter(store, id, user_text)):
            # With another intent a weak model lists here what it was shown.
            found.append(id)
        else:
            out.append(Result("dropped", "the user did not ask to forget it", "", id))
    if not ids:
        id = only_match(store, user_text)
        if id:
            found.append(id)
        else:
            out.append(Result("dropped", "not clear which item is meant"))
    del only_match, same_matter
    for id in found:
        drop_all()
        content = store.get(id)["content"]
        labels = store.forget(id)
        out.append(Result("forgotten", "the user asked for it", content, id, labels))
