"""`/memory` and `/profile`: looking at and changing what the board remembers.

Owns their wording, and that of who may not. Works on the Mind's store and profile; must not call
a model. Imported when such a command comes.
"""

MEMORY_USAGE = (
    "Usage: /memory list [PAGE] | show ID | search WORDS | store TEXT | pin ID | unpin ID"
    " | edit ID TEXT | forget ID | why ID"
)
PROFILE_USAGE = "Usage: /profile show [user|soul|identity] | edit NAME TEXT | reset NAME"
_PAGE = 20


def run(agent, chat, name, rest):
    """Carry out the command `name` (with its slash): (done, text). Raises StorageError."""
    mind = agent.mind
    if mind is None:
        return False, "This board keeps no long-term memory (memory.mode is off)."
    if not agent.sees_memory(chat):
        return False, "Guests do not see the long-term memory of this board."
    verb, _, rest = (rest or ("list" if name == "/memory" else "show")).partition(" ")
    rest = rest.strip()
    try:
        if name == "/profile":
            return _profile(mind.profile(), verb, rest)
        return _memory(mind.store, verb, rest)
    except ValueError as error:
        return False, str(error)


def _memory(store, verb, rest):
    if verb == "list":
        return True, _list(store, rest)
    if verb == "search" and rest:
        found = store.search(rest)
        store.sleep()
        return True, _items(store, found) or "Nothing that is stored has these words."
    if verb == "store" and rest:
        from upyclaw.memory.label import labels_for

        labels = ",".join(labels_for(store, rest))
        del labels_for
        store.sleep()
        how, id, _ = store.store(rest, labels, "", "manual")
        return True, ("Known already: {}." if how == "same" else "Stored: {}.").format(id)
    id, _, text = rest.partition(" ")
    work = {"show": _show, "pin": _pin, "unpin": _unpin, "forget": _forget, "why": _why}.get(verb)
    if id and (work or verb == "edit" and text.strip()):
        if store.get(id) is None and verb != "why":
            return False, "There is no memory {}; /memory list shows the ids.".format(id)
        return work(store, id) if work else _edit(store, id, text.strip())
    return False, MEMORY_USAGE


def _list(store, page):
    slots = store.slots()
    if not slots:
        return "Nothing is remembered yet."
    first = (max(1, int(page)) - 1) * _PAGE if page.isdigit() else 0
    text = _items(store, slots[first : first + _PAGE])
    left = len(slots) - first - _PAGE
    if left > 0:
        text += "\n({} more: /memory list {})".format(left, first // _PAGE + 2)
    return text or "There is no such page."


def _items(store, slots):
    return "\n".join(
        ["{}: {}".format(store.id_of(slot), store.text_of(slot, b"content")) for slot in slots]
    )


def _show(store, id):
    from upyclaw.memory.dates import date
    from upyclaw.memory.record import labels_of

    item = store.get(id)
    return True, (
        "{}{}\n{}\nlabels: {}\nkeywords: {}\nsource: {}\nstored {}, last used {}, {} times"
    ).format(
        id,
        " (pinned)" if item["pinned"] else "",
        item["content"],
        ", ".join(labels_of(item["tags"])) or "-",
        item["keywords"] or "-",
        item["source"],
        date(item["created_at"] + store.zone),
        date(item["updated_at"] + store.zone),
        item["access_count"],
    )


def _pin(store, id):
    if store.pin(id):
        return True, "Pinned: {} is never forgotten by itself.".format(id)
    return False, "{} cannot be pinned: too many are.".format(id)


def _unpin(store, id):
    store.pin(id, False)
    return True, "Not pinned any more: {}.".format(id)


def _edit(store, id, text):
    changed, _ = store.update(id, text)
    return True, ("Changed: {}." if changed else "{} says that already.").format(id)


def _forget(store, id):
    store.forget(id)
    return True, "Forgotten: {}.".format(id)


def _why(store, id):
    """Where an item comes from, and what happened to it: the digest's last lines about it."""
    from upyclaw.memory.dates import date

    item = store.get(id)
    lines = []
    if item:
        lines.append(
            "{}: from {}, stored {}.".format(
                id, item["source"], date(item["created_at"] + store.zone)
            )
        )
    store.journal.flush()
    try:
        with open(store.root + "/memory_digest.log", "rb") as f:
            for line in f:
                if b"\t" + id.encode() in line:
                    lines.append(_digest_line(line, store.zone, date))
                    if len(lines) > 9:
                        lines.pop(1)
    except OSError:
        pass
    if not lines:
        return False, "Nothing is known about {}.".format(id)
    return True, "\n".join(lines)


def _digest_line(line, zone, date):
    fields = line.decode().rstrip("\n").split("\t")
    when = date(int(fields[0]) + zone) if fields[0].isdigit() else fields[0]
    return " ".join([when, fields[1]] + fields[3:])


def _profile(profile, verb, rest):
    name, _, text = rest.partition(" ")
    if verb == "show":
        names = (name,) if name else ("user", "soul", "identity")
        return True, "\n\n".join(
            ["{}.md:\n{}".format(n, profile.read(n) or "(empty)") for n in names]
        )
    if verb == "edit" and text.strip():
        profile.write(name, text.strip())
        return True, "Written: {}.md.".format(name)
    if verb == "reset" and name:
        profile.reset(name)
        return True, "{}.md is the default again.".format(name)
    return False, PROFILE_USAGE
