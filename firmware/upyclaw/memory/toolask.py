"""What a call of a memory tool asks for: loose arguments made into one call of the store.

Owns: the meaning of the arguments, and what the model may not store (SPEC-context-and-tools §2).
Must not change the store. See tool.py for what comes next.
"""

from .cuts import clean


def prepare(name, target, args):
    """(method of the store, its arguments, detail for the answer) of the call `name`. ValueError
    if the arguments will not do."""
    if name == "memory_list":
        return "slots", (), _number(args, "offset", 65535)
    if name == "memory_recall":
        return _recall(target, args)
    if name == "memory_store":
        return _store(target, args)
    if name == "profile_update":
        return _profile(target, args)
    id, content, tags, keywords = _strings(args, "memory_id", "content", "tags", "keywords")
    if not id:
        raise ValueError("memory_id is required")
    if name == "memory_forget":
        return "forget", (id,), (id, "")
    content = _masked(content)[0]
    return "update", (id, content, tags, keywords), (id, content)


def _strings(args, *names):
    """The named arguments as text; a list is joined, anything else is empty."""
    out: list[str] = []
    for name in names:
        value = args.get(name)
        if isinstance(value, list):
            value = ",".join([v for v in value if isinstance(v, str)])
        out.append(value if isinstance(value, str) else "")
    return out


def _number(args, name, most):
    value = args.get(name)
    return min(value, most) if isinstance(value, int) and value > 0 else 0


def _recall(store, args):
    """A search, or a recall by labels; the detail is a label that does not exist, or ""."""
    limit = _number(args, "limit", 8) or 8
    labels = args.get("summary_labels")
    if isinstance(labels, str):
        from .record import split_terms

        labels = split_terms(labels)
    labels = [v for v in labels if isinstance(v, str) and v] if isinstance(labels, list) else []
    query = args.get("query")
    if isinstance(query, str) and query.strip() and not labels:
        return "search", (query, limit), ""
    labels = labels[:3]
    for label in labels:
        if not store.carried(label):
            return "slots", (), label
    return "recall", (labels, limit), ""


def _masked(content):
    """(content without secrets, is it an order to the assistant)."""
    from .safety import is_order, mask

    content = mask(clean(content))
    return content, is_order(content)


def _store(store, args):
    content, tags, keywords, id = _strings(args, "content", "tags", "keywords", "memory_id")
    content, order = _masked(content)
    if order:
        raise ValueError(
            "not a fact about the user", "How the assistant shall be is kept with profile_update."
        )
    if not tags and content:
        from . import unwanted

        unwanted("safety", "text")
        from .label import labels_for

        tags = ",".join(labels_for(store, content))
    return "store", (content, tags, keywords, "manual", id), (id, content)


def _profile(root, args):
    name, text, old = _strings(args, "file", "text", "old")
    if not text.strip() and not old:
        raise ValueError("text is required")
    from .profile import Profile

    Profile(root).edit(name, old, text)
    return "", (), (name, "")
