"""memory_store, memory_update, memory_forget and profile_update.

Owns: what the model may change, and the form of the answers. What is true is decided by the store.
"""

from .cuts import clean
from .toolwork import failed, free, strings


def change(name, target, args, context):
    """Carry out the call `name` on `target`; the answer as JSON text."""
    if name == "memory_store":
        return _store(target, args, context)
    if name == "memory_update":
        return _update(target, args, context)
    if name == "memory_forget":
        return _forget(target, args, context)
    return _profile(target, args)


def _done(action, changed, id, labels):
    # Not at the top: what is imported there stays while the store is changed.
    from .render import quote

    return '{"ok":true,"action":"%s","changed":%s,"memory_id":%s%s}' % (
        action,
        "true" if changed else "false",
        quote(id),
        ',"summary":' + quote(labels[0]) if labels else "",
    )


def _tell(context, content, labels):
    """Note for the agent what was stored or forgotten: the fact, and the labels that changed."""
    if context is not None:
        if content:
            context.facts.append(content)
        context.labels.extend(labels)


def _masked(content):
    """(content without secrets, is it an order to the assistant)."""
    from .safety import is_order, mask

    content = mask(clean(content))
    return content, is_order(content)


def _labels(store, content):
    from .label import labels_for

    return ",".join(labels_for(store, content))


def _store(store, args, context):
    content, tags, keywords, id = strings(args, "content", "tags", "keywords", "memory_id")
    content, order = _masked(content)
    if order:
        return failed(
            "not a fact about the user", "How the assistant shall be is kept with profile_update."
        )
    free()
    if not tags and content:
        tags = _labels(store, content)
        free()
    how, id, labels = store.store(content, tags, keywords, "manual", id)
    _tell(context, content, labels if how != "same" else ())
    return _done("memory_store", how != "same", id, labels)


def _update(store, args, context):
    id, content, tags, keywords = strings(args, "memory_id", "content", "tags", "keywords")
    if not id:
        return failed("memory_id is required")
    content, _ = _masked(content)
    free()
    done = store.update(id, content, tags, keywords)
    if done is None:
        return failed("memory_update_failed", "", "ESP_ERR_NOT_FOUND")
    _tell(context, content, done[1] if done[0] else ())
    return _done("memory_update", done[0], id, done[1])


def _forget(store, args, context):
    (id,) = strings(args, "memory_id")
    if not id:
        return failed("memory_id is required")
    labels = store.forget(id)
    if labels is None:
        return failed("memory_forget_failed", "", "ESP_ERR_NOT_FOUND")
    _tell(context, "", labels)
    return _done("memory_forget", True, id, labels)


def _profile(root, args):
    name, text, old = strings(args, "file", "text", "old")
    if not text.strip() and not old:
        return failed("text is required")
    from .profile import Profile

    Profile(root).edit(name, old, text)
    free()
    from .render import quote

    return '{"ok":true,"action":"profile_update","changed":true,"file":%s}' % quote(name)
