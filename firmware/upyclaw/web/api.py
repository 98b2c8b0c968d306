"""What a page can ask beside chatting: sessions, memory, profile, status.

Owns the JSON of these operations (docs/web.md, "Messages"). Changes nothing itself: sessions go
through the chat's own commands, memory and profile through their stores. Loaded for the call.
"""

from upyclaw import __version__
from upyclaw.compat import mem_free, unix_time

_CHANGED = "The memory changed meanwhile; load it again."
_NO_MEMORY = "Long-term memory is not open to this page."
_SESSION = ("new", "switch", "delete", "trim")


async def run(client, op, ident, message):
    """Carry out operation `op`: sends items, returns the fields of the end event.

    Raises StorageError, Gone; ValueError, TypeError for what is not understood.
    """
    if op == "status":
        return _status(client)
    if op == "sessions":
        return await _sessions(client, ident)
    verb = message.get("do")
    if op == "session":
        if verb not in _SESSION:
            raise ValueError("do")
        return await _command(client, "/session {} {}", verb, message.get("name", ""))
    if op == "profile":
        return _profile(client, verb, message)
    return await _memory(client, ident, verb, message)


class _Words:
    """A sink that keeps the words of a command's answer."""

    def __init__(self):
        self.words = ""

    def text(self, piece):
        """Keep a piece."""
        self.words += piece

    async def drain(self):
        """Nothing to do."""

    async def note(self, sentence):
        """Keep a sentence."""
        self.words += sentence + "\n"


async def _command(client, line, verb, rest):
    sink = _Words()
    line = line.format(verb, str(rest).replace("\n", " ")).strip()
    fields = await client.app.answer(client.chat, line, sink)
    out = {"d": sink.words}
    for name in ("ok", "session"):
        if name in fields:
            out[name] = fields[name]
    if not fields["ok"]:
        out["error"] = fields["error"] or sink.words
    client.server.changed(client)
    return out


def _status(client):
    app = client.app
    model = app.agent.client
    session = app.agent.session(client.chat)
    return {
        "name": app.settings["name"],
        "board": app.board(),
        "firmware": __version__,
        "heap_free": mem_free(),
        "flash_free": app.flash_free(),
        "model": model.model if model.available else None,
        "context": model.context if model.available else 0,
        "why": None if model.available else model.why,
        "serial": app.link.attached,
        "pages": len(client.server.clients),
        "session": app.agent.map(client.chat).current()[0],
        "records": session.count,
        "bytes": session.size,
        "limit": app.store.limit,
        "blocked": session.blocked,
        "clock": unix_time(),
        "memories": len(client.mind().store) if client.mind() else None,
    }


async def _sessions(client, ident):
    chats = client.app.agent.map(client.chat)
    sizes = {}
    for sid, _, size in client.app.store.list():
        sizes[sid] = size
    for alias, current in chats.list():
        size = sizes.get(chats.sid(alias), 0)
        await client.say(
            {"id": ident, "ev": "item", "name": alias, "size": size, "current": current}
        )
    return {"session": chats.current()[0]}


def _profile(client, verb, message):
    mind = client.mind()
    if mind is None:
        return {"ok": False, "error": _NO_MEMORY}
    profile = mind.profile()
    name = str(message.get("file", ""))
    try:
        if verb == "show":
            return {"d": profile.read(name)}
        if verb == "edit":
            profile.write(name, str(message["text"]))
        elif verb == "reset":
            profile.reset(name)
        else:
            raise ValueError("There is no such operation.")
    except ValueError as error:  # a sentence for the user
        return {"ok": False, "error": str(error)}
    return {"d": profile.read(name)}


async def _memory(client, ident, verb, message):
    mind = client.mind()
    if mind is None:
        return {"ok": False, "error": _NO_MEMORY}
    memory = mind.store
    name = str(message.get("memory", ""))
    if verb == "list":
        return await _items(client, ident, memory, memory.slots())
    if verb == "search":
        slots = memory.search(str(message.get("q", ""))[:512], 8, False)
        return await _items(client, ident, memory, slots)
    if verb == "why":
        return await _command(client, "/memory {} {}", "why", name)
    if verb == "pin":
        on = bool(message.get("on"))
        if not memory.pin(name, on):
            return {"ok": False, "error": "Not pinned: it is gone, or too many are pinned."}
        return {}
    if verb == "forget":
        done = memory.forget(name) is not None
    elif verb == "edit":
        fields = [str(message.get(key, "")) for key in ("content", "tags", "keywords")]
        done = memory.update(name, fields[0], fields[1], fields[2], "manual") is not None
    else:
        raise ValueError("do")
    return {} if done else {"ok": False, "error": "There is no such memory any more."}


async def _items(client, ident, memory, slots):
    mark = (memory.bytes, len(memory))
    n = 0
    for slot in slots:
        if (memory.bytes, len(memory)) != mark:
            # A turn stored or forgot something while we were sending: the slots have moved.
            return {"ok": False, "again": True, "error": _CHANGED}
        item = memory.item(slot)
        await client.say(
            {
                "id": ident,
                "ev": "item",
                "memory": item["id"],
                "content": item["content"],
                "tags": item["tags"],
                "keywords": item["keywords"],
                "pinned": item["pinned"],
                "count": item["access_count"],
                "updated": item["updated_at"],
                "created": item["created_at"],
            }
        )
        n += 1
    memory.release()
    return {"total": n}
