"""What long-term memory does in a turn: orders obeyed, sections of the prompt, extraction.

Owns the wiring between `memory` (which knows no model) and the model client, and the settings
`memory.*`. Must not know sessions or channels: the agent calls it, `notify` tells the chat.
"""

from upyclaw.memory.store import MemoryStore
from upyclaw.memory.worker import Worker
from upyclaw.prompt import Request
from upyclaw.storage import StorageError

ROOT = "/data/memory"
_REPLY = 4096  # bytes of an extraction reply that are kept
_TOKENS = 512  # of an extraction reply


class _Reply:
    """Handler of a ReplyReader that keeps the text, up to a limit. `until_quiet()` waits until no
    turn is in work: none is begun to be read beside one, because the heap has no room for it."""

    def __init__(self, until_quiet):
        self.data = bytearray()
        self.ready = until_quiet

    def on_text(self, text):
        data = text.encode()
        if len(self.data) + len(data) <= _REPLY:
            self.data += data

    def on_reasoning(self, text):
        pass

    def on_tool(self, index, ident, name, arguments):
        pass

    def on_end(self, reason, usage):
        pass


class Mind:
    """Long-term memory beside the agent. `notify(session_id, sentence)` tells the chat of what
    extraction stored; `zone()` gives seconds east of UTC; `secrets()` texts never to be stored."""

    def __init__(self, settings, client, notify, zone, secrets, root=ROOT):
        self.settings = settings["memory"]
        self.store = MemoryStore(root)
        self.root = root
        notify = notify if self.settings["notes"] == "on" else None
        self.worker = Worker(self.store, self._ask, notify, secrets)
        self.worker.enabled = self.settings["extract"] == "on"
        self._client = client
        self._zone = zone
        self._secrets = secrets
        self._model = settings["model"]
        try:
            # At start, while the heap is whole: what stays of it must not lie in the middle later.
            self.store.open()
        except (StorageError, MemoryError) as error:
            self.store.notice("The long-term memory could not be read ({}).".format(error))
        self.store.sleep()

    def profile(self):
        """The profile files."""
        from upyclaw.memory.profile import Profile

        return Profile(self.root)

    def tools(self):
        """The tools of memory and profile, for the registry."""
        from upyclaw.memory.tools import memory_tools

        tools = memory_tools(self.store, self.root)
        del memory_tools
        self.store.sleep()
        return tools

    def obey(self, text):
        """Carry out an order to the memory in the user's line (`Remember: ...`): its Answer, or
        None. Raises StorageError: then nothing is stored and nothing may be confirmed (B58)."""
        self.store.zone = self._zone()
        from upyclaw.memory.spot import order

        kind = order(text)[0]
        del order
        self.store.sleep()
        if not kind:
            return None
        self.worker.make_room()
        from upyclaw.memory.orders import obey

        return obey(self.store, text, self._secrets())

    def sections(self, tools):
        """System sections of a turn: profile, labels or MEMORY.md. They stay the same until the
        memory changes. `tools`: the model calls tools."""
        self.store.zone = self._zone()
        from upyclaw.memory.context import stable_parts

        mode = self.settings["mode"]
        if mode == "full" and not len(self.store):
            mode = "off"  # nothing to look up yet: the profile alone
        parts = stable_parts(self.store, self.profile(), mode, tools)
        self.store.sleep()
        return parts

    def recalled(self, text):
        """What fits the user's `text` strongly, as quoted data in a str; "" for nothing."""
        if self.settings["recall"] != "on" or not len(self.store):
            return ""
        from upyclaw.memory.context import recalled

        found = recalled(self.store, text)
        return found[1].decode().strip() if found else ""

    def told(self, labels):
        """The quiet line about changed labels, "" for none or if `memory.notes` is off."""
        return note(labels) if self.settings["notes"] == "on" else ""

    async def give_way(self):
        """A turn has no room in the heap: a running extraction ends, the memory's code and its
        label list go."""
        await self.worker.give_way()
        self.store.label_list = None
        self.store.sleep()

    def close(self):
        """Bring MEMORY.md, index and digest up to date. Raises StorageError."""
        if self.store.stale:
            self.store.flush()

    def idle(self):
        """Housekeeping while nobody talks; cheap when nothing is due."""
        self.store.idle()

    async def _ask(self, parts, user, timeout_ms):
        """One extraction call: its reply as text. Raises LLMError."""
        options = {
            "max_tokens": _TOKENS,
            "max_tokens_field": self._model["max_tokens_field"],
            "temperature": 0,
            "user": user,
            "sending": self.worker.send,
        }
        reply = _Reply(self.worker.until_quiet)
        await self._client.chat(
            Request(None, parts, 0, None, None, options), reply, "extract", timeout_ms
        )
        return bytes(reply.data).decode()


def note(labels):
    """The quiet line about labels that changed, "" for none."""
    unique = []
    for label in labels:
        if label not in unique:
            unique.append(label)
    return "Memory update: [{}]".format(";".join(unique)) if unique else ""
