"""The gates between a model's reply and the store: what gets in, and why the rest does not.

Owns: reading the reply, grounding it in the user's own words, replace and forget (docs/memory.md,
"Gates"; SPEC-extract §3-§5; B02, B15, B25, B27, B28). Must not call a model. The model only
judges language: no id, no source and no count is taken from it unchecked.
"""

from ..compat import const, json_loads
from . import record
from .filter import statements
from .recall import search
from .safety import is_order, mask
from .terms import shares, terms
from .text import clean, cut, fold

MOST = const(3)
# Bounds of what is looked at in a reply.
_REPLY = const(8192)
_STARTS = const(64)
_DEPTH = const(8)
_ENTRIES = const(16)

# Labels that say nothing.
_GENERIC = (
    " profile preference preferences memory memories information info user user's fact facts"
    " general"
    " personal misc other note notes data label tag 偏好 喜好 信息 用户 记忆 个人信息 资料 其他"
    " 事实 "
)
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


def find_json(text):
    """Yield the JSON objects and lists in a model's text, first to last, nested ones of broken
    text too. Never raises; bounded in depth and number."""
    data = text.encode()
    at = data.rfind(b"</think>")
    data = data[at + 8 if at >= 0 else 0 :][:_REPLY]
    tries = 0
    i = 0
    cut_off = False
    while i < len(data) and tries < _STARTS:
        # Inside an object that was cut off, a list is only a part of an answer (B17).
        if data[i] not in (b"{" if cut_off else b"{["):
            i += 1
            continue
        tries += 1
        end = _end_of(data, i)
        if end > 0:
            try:
                value = json_loads(data[i:end])
            except (ValueError, RuntimeError):
                value = None
            if isinstance(value, (dict, list)):
                yield value
                i = end
                continue
        elif data[i] == 123:
            cut_off = True
        i += 1


def _end_of(data, i):
    """Index behind the bracket that closes the one at `i`; 0 if none does or it nests too deep."""
    depth = 0
    quoted = False
    n = len(data)
    while i < n:
        c = data[i]
        if quoted:
            if c == 92:
                i += 1
            elif c == 34:
                quoted = False
        elif c == 34:
            quoted = True
        elif c == 123 or c == 91:
            depth += 1
            if depth > _DEPTH:
                return 0
        elif c == 125 or c == 93:
            depth -= 1
            if not depth:
                return i + 1
        i += 1
    return 0


def read_reply(text):
    """(intent, candidates, ids to forget) of a reply; None if it is not in the form asked."""
    for value in find_json(text):
        if isinstance(value, list):
            if [entry for entry in value if isinstance(entry, dict) and "content" in entry]:
                return "none", value, []
            if not value and text.strip() == "[]":
                return "none", value, []
            continue
        intent = value.get("intent")
        intent = intent.strip().lower() if isinstance(intent, str) else "none"
        if intent not in ("forget", "replace"):
            intent = "none"
        forgets = _ids(value, ("forgets", "forget"))
        memories = value.get("memories")
        if isinstance(memories, list):
            return intent, memories, forgets
        if "memories" not in value and (forgets or intent == "forget"):
            return intent, [], forgets
    return None


def _ids(value, names):
    """The ids under the first of `names` that has any, as a list of str."""
    for name in names:
        found = value.get(name)
        if isinstance(found, str):
            found = [found]
        if isinstance(found, list):
            found = [clean(id).strip("`[]() ") for id in found[:8] if isinstance(id, str)]
            found = [id for id in found if id and id not in ("none", "null")]
            if found:
                return found
    return []


def note(labels):
    """The quiet line for the chat, or None: `Memory update: [tea;garden]` (SPEC-extract §6)."""
    return "Memory update: [{}]".format(";".join(labels)) if labels else None


def apply(store, reply, user_text, offered=None, secrets=(), gone=(), known=()):
    """Run a reply through all gates and change `store`. Returns a list of Result, None if
    unreadable.

    `user_text` is the bare text of the user's turn, the only evidence there is. `offered` are the
    ids the model was shown (None: any). `secrets` are never stored. `gone` are contents that were
    forgotten while the model was thinking, `known` contents that were stored in this very turn.
    """
    answer = read_reply(reply)
    if answer is None:
        return None
    intent, memories, forgets = answer
    out: list[Result] = []
    if intent == "forget" or forgets:
        _forget(store, user_text, forgets, offered, out)
    if intent == "forget":
        return out
    said = statements(user_text)
    taken = 0
    for entry in memories[:_ENTRIES]:
        if taken == MOST:
            out.append(Result("dropped", "more than 3 in one turn", _content(entry)))
            continue
        why = _refused(entry, said, gone, known, store.clock())
        if why:
            result = Result("dropped", why, _content(entry))
        else:
            result = _candidate(store, entry, said, user_text, intent, offered, secrets)
        taken += result.what != "dropped"
        out.append(result)
    return out


def labels_in(results):
    """Labels of what changed, each once."""
    out: list[str] = []
    for result in results:
        if result.what not in ("same", "dropped"):
            for label in result.labels:
                if label not in out:
                    out.append(label)
    return out


def _content(entry):
    text = entry.get("content") if isinstance(entry, dict) else None
    return clean(text) if isinstance(text, str) else ""


def _list(value):
    """Terms of a tags or keywords value of any type."""
    if isinstance(value, str):
        value = record.split_terms(clean(value))
    if not isinstance(value, list):
        return []
    return [clean(term) for term in value if isinstance(term, str) and clean(term)]


def _refused(entry, said, gone, known, now):
    """Why an entry of the reply is no memory, "" if it may be one."""
    content = _content(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        return "not an object with a text as content"
    if not content:
        return "empty"
    if not said:
        return "the user states nothing"
    if is_order(content):
        return "an order to the assistant, no fact about the user"
    if not shares(terms(content), said):
        return "no word of it is the user's"
    if _invents_date(content, said, now):
        return "a date that nobody gave"
    for old in gone:
        if _covers(content, old):
            return "was forgotten meanwhile"
    for old in known:
        if _covers(content, old):
            return "was stored by order already"
    return ""


def _covers(content, old):
    """True if `content` holds half of the telling words of `old` or more."""
    wanted = terms(old)
    return bool(wanted) and 2 * shares(wanted, content) >= len(wanted)


def _invents_date(content, said, now):
    """True if `content` has a date (2026-11-29) that is not the user's and far off (B57)."""
    at = content.find("-")
    while at >= 0:
        day = content[max(0, at - 4) : at + 6]
        if len(day) == 10 and (day[:4] + day[5:7] + day[8:]).isdigit() and day[7] == "-":
            if day not in said:
                year = 1970 + now // 31556952
                if not now or not year - 1 <= int(day[:4]) <= year + 2:
                    return True
        at = content.find("-", at + 1)
    return False


def _candidate(store, entry, said, user_text, intent, offered, secrets):
    content = _content(entry)
    content = cut(mask(content, secrets), record.CONTENT)
    said_folded = fold(user_text)
    keywords = [w for w in _list(entry.get("keywords")) if fold(w) in said_folded]
    tags = _list(entry.get("tags")) or _list(entry.get("summary_labels"))
    tags = [t for t in tags if " " + fold(t) + " " not in _GENERIC] or keywords[:1]
    tags = tags or _tag_from(content, said)
    tags = mask(",".join(tags), secrets)
    keywords = mask(",".join(keywords), secrets)
    return _keep(store, entry, content, tags, keywords, said, intent, offered)


def _tag_from(content, said):
    """A label for a memory that came without: its first telling word."""
    from .filter import label_for

    return [label_for(content)] if said else []


def _keep(store, entry, content, tags, keywords, said, intent, offered):
    for id in _ids(entry, ("same", "same_as")):
        old = _named(store, id, offered)
        # A model that calls a new fact known would lose it: it must at least speak of the same.
        if old and (shares(terms(content), old["content"])):
            store.touch(store.find(id), False)
            return Result("same", "says the same as a stored item", content, id)
    target = ""
    for id in _ids(entry, ("replaces", "replace", "updates")):
        if _named(store, id, offered):
            target = id
            break
    if not target and intent == "replace":
        # What is corrected shares words with the correction, or with what the user said of it.
        target = closest(store, content, tags) or only_match(store, said)
    if target:
        how, slot = store.related(content)
        if how == "same" and store.id_of(slot) != target:
            # The correction is stored already: end what it corrects.
            id = store.id_of(slot)
            labels = store.forget(target)
            return Result("replaced", "was known; the old one is forgotten", content, id, labels)
        changed, labels = store.update(target, content, tags, keywords, "auto_llm")
        if changed:
            return Result(
                "replaced", "takes the place of the item it corrects", content, target, labels
            )
        return Result("same", "known", content, target)
    how, id, labels = store.store(content, tags, keywords, "auto_llm")
    if how == "same":
        return Result("same", "known", content, id)
    return Result(
        "stored" if how == "new" else "refined",
        "new" if how == "new" else "adds to an item",
        content,
        id,
        labels,
    )


def _named(store, id, offered):
    if offered is not None and id not in offered:
        return None
    return store.get(id)


def closest(store, content, tags=""):
    """Id of the one item `content` most likely corrects, "" if none shares a word with it."""
    wanted = terms(content)
    for slot, _ in search(store.open(), content + " " + tags, 8):
        if shares(wanted, store.text_of(slot, b"content")):
            return store.id_of(slot)
    return ""


def _forget(store, user_text, ids, offered, out):
    folded = fold(user_text)
    asked = False
    for word in _FORGET.split("|"):
        if word in folded:
            asked = True
    found = []
    for id in ids:
        item = _named(store, id, offered)
        if not item:
            out.append(Result("dropped", "no such item: " + id))
        elif asked or shares(terms(item["content"]), user_text):
            found.append((id, item["content"]))
        else:
            out.append(Result("dropped", "the user did not ask to forget it", item["content"], id))
    if not ids:
        id = only_match(store, user_text)
        if id:
            found.append((id, store.get(id)["content"]))
        else:
            out.append(Result("dropped", "not clear which item is meant"))
    for id, content in found:
        labels = store.forget(id)
        if labels is not None:
            out.append(Result("forgotten", "the user asked for it", content, id, labels))


def only_match(store, text):
    """Id of the one item that fits `text`, "" if there is none, or another fits as well."""
    found = search(store.open(), text, 2)
    if not found or (len(found) > 1 and found[1][1] * 3 > found[0][1] * 2):
        return ""
    return store.id_of(found[0][0])
