"""Reading what a model answered: JSON somewhere in a text, in the form asked for or near it.

Owns: the bounds of what is looked at (SPEC-extract §3, B02, B15, B17). Must not know the store.
"""

from ..compat import const, json_loads
from .cuts import clean

# Bounds of what is looked at in a reply.
_REPLY = const(8192)
_STARTS = const(64)
_DEPTH = const(8)


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
        forgets = ids_in(value, ("forgets", "forget"))
        memories = value.get("memories")
        if isinstance(memories, list):
            return intent, memories, forgets
        if "intent" in value and isinstance(value.get("content"), str):
            # One fact without the list around it.
            return intent, [value], forgets
        if "memories" not in value and (forgets or intent == "forget"):
            return intent, [], forgets
    return None


def ids_in(value, names):
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
