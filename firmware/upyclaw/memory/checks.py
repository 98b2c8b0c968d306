"""What a model's candidate must pass to become a memory; nothing is stored here.

Owns: grounding in the user's own words, what is no fact, invented dates (docs/memory.md, "Gates";
B15, B27, B28, B57). Must not know the store or a model. Orders and secrets are screen.py's matter.
"""

from ..compat import const
from .cuts import clean
from .reply import ids_in
from .terms import shares, terms
from .text import fold

MOST = const(3)
_ENTRIES = const(16)

# Labels that say nothing.
_GENERIC = (
    " profile preference preferences memory memories information info user user's fact facts"
    " general"
    " personal misc other note notes data label tag 偏好 喜好 信息 用户 记忆 个人信息 资料 其他"
    " 事实 "
)


def check(memories, orders, said, user_text, gone, known, now):
    """Look at the entries of a reply: a list of (why, fact).

    fact: (content, tags, keywords, ids it is the same as, ids it replaces); why is "" then. An
    entry that does not pass gives its reason, and its content as the fact. At most 3 pass.
    `said` is what the user stated, their questions left out; `orders` says which entries are
    orders (screen.py). Nothing is masked here.
    """
    out = []
    taken = 0
    for entry, order in zip(memories[:_ENTRIES], orders):
        if taken < MOST:
            why = _refused(entry, order, said, gone, known, now)
        else:
            why = "more than 3 in one turn"
        if why:
            out.append((why, _content(entry)))
            continue
        taken += 1
        out.append(("", _fact(entry, user_text)))
    return out


def _fact(entry, user_text):
    folded = fold(user_text)
    keywords = [word for word in _list(entry.get("keywords")) if fold(word) in folded]
    tags = _list(entry.get("tags")) or _list(entry.get("summary_labels"))
    # "..." and "I" say as little: weak models copy them from the question.
    tags = [tag for tag in tags if terms(tag) and " " + fold(tag) + " " not in _GENERIC]
    keywords = [word for word in keywords if terms(word)]
    tags = tags or keywords[:1]
    return (
        _content(entry),
        ",".join(tags),
        ",".join(keywords),
        ids_in(entry, ("same", "same_as")),
        ids_in(entry, ("replaces", "replace", "updates")),
    )


def _content(entry):
    text = entry.get("content") if isinstance(entry, dict) else None
    return clean(text) if isinstance(text, str) else ""


def _list(value):
    """Terms of a tags or keywords value of any type."""
    if isinstance(value, str):
        for sep in ";/|":
            value = value.replace(sep, ",")
        value = value.split(",")
    if not isinstance(value, list):
        return []
    return [clean(term) for term in value if isinstance(term, str) and clean(term)]


def _refused(entry, order, said, gone, known, now):
    """Why an entry of the reply is no memory, "" if it may be one."""
    content = _content(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        return "not an object with a text as content"
    if not content:
        return "empty"
    if not said:
        return "the user states nothing"
    if order:
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
