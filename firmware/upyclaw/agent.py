"""From a typed line to the records on flash: gate, commands, memory orders, the model's turn.

Owns the order of things: user record durable first (B18), the model's part of the turn after it
(turn.py), extraction last and beside (B07). Knows sessions, memory and the model client through
their interfaces; must not know channels or serial lines. Answers go to a `sink`:

    sink.text(str)            a piece of the answer (quick, kept until drain)
    await sink.drain()        pass on what is kept
    await sink.note(str)      a sentence beside the answer
"""

import asyncio

from upyclaw.compat import collect, empty, ticks_diff, ticks_ms, ticks_us, unload
from upyclaw.storage import FINAL, SessionBlocked, StorageError, json_escape, user_record
from upyclaw.storage.chatmap import ChatMap
from upyclaw.turn import OPENAI, Turn

# A line is stored whole: the channels take no longer ones. (The reference cuts at 4,096
# characters before the model sees them, WEAKNESSES 12.)
_CHARS = 8192

UNREADABLE = (
    "{} record(s) of this session cannot be read; they stay in the file and are left out of what"
    " the model sees. `upyclaw session verify` tells where."
)
NO_MEMORY = "Not enough memory for this turn; what was saved is whole."


class _Unsaved:
    """Stands for the session in a turn that the flash has no room for: reads, writes nothing."""

    def __init__(self, session):
        self._session = session
        self.sid = session.sid
        self.entry = session.entry
        self.chunks = session.chunks

    @property
    def count(self):
        return self._session.count

    def _nothing(self, *args):
        pass

    begin = write = end = drop = sync = finish = _nothing


class Agent:
    """Runs turns. `store`: SessionStore, `client`: model client, `mind`: Mind or None.

    `make_tools(memory)` gives the Registry, with or without the tools of long-term memory.
    `sees_memory(chat)`: may the user of that chat see long-term memory (B32). `net`: Wifi or None.
    """

    def __init__(self, store, client, settings, make_tools, mind=None):
        self.store = store
        self.client = client
        self.settings = settings
        self.mind = mind
        self.sees_memory = lambda chat: True
        self.net = None
        self._make_tools = make_tools
        self._tools = None
        self._maps = {}
        self._locks = {}
        self._turns = []  # (task, Turn) of those in work
        self._damaged = []  # ids of sessions whose unreadable records the user knows of

    def map(self, chat):
        """The ChatMap of chat key `chat`. Raises StorageError."""
        if chat not in self._maps:
            self._maps[chat] = ChatMap(self.store, chat)
        return self._maps[chat]

    def session(self, chat):
        """The current Session of a chat. Raises StorageError."""
        return self.store.open(self.map(chat).current()[1])

    def busy(self):
        """True while any chat has a turn in work."""
        for lock in self._locks.values():
            if lock.locked():
                return True
        return False

    def close(self):
        """Bring everything on flash up to date, unless a turn is in work. Raises StorageError."""
        if not self.busy():
            for chat in self._maps:
                self.session(chat).close()
            if self.mind:
                self.mind.close()

    def tools(self, memory=True):
        """The Registry for the model that is there now; None if it gets no tools. `memory`: with
        the tools that read and change long-term memory, which guests do not get (B32)."""
        wanted = self.settings["prompt"]["tools"]
        if wanted == "off" or wanted == "auto" and not self.client.tools:
            return None
        if self._tools is None or self._tools[0] != memory:
            self._tools = memory, self._make_tools(memory)
        return self._tools[1]

    def make_room(self):
        """No turn is in work: the tools leave the heap until the next one."""
        self._tools = None
        unload("upyclaw.tools.builtin", "upyclaw.tools.registry", "upyclaw.memory.tool")
        unload("upyclaw.tools.rounds")
        collect()

    def relieve(self):
        """The heap is so full that not even the link runs, and a turn would wait for it for ever.

        What waits for the model gives way: the extraction, the next time the turns.
        """
        if self.mind and self.mind.worker.asking:
            self.mind.worker.asking.cancel()
            return
        for task, turn in self._turns:
            turn.error = NO_MEMORY
            task.cancel()

    async def answer(self, chat, text, sink):
        """Answer one line of chat `chat`; the fields of the end event.

        Lines of one chat are answered in order, those of others meanwhile (B38). Raises nothing
        but CancelledError while the line waits.
        """
        started = ticks_ms()
        if chat not in self._locks:
            self._locks[chat] = asyncio.Lock()
        async with self._locks[chat]:
            try:
                if self.mind:
                    # The heap has no room for an extraction beside it.
                    await self.mind.worker.hold()
                fields = await self._line(chat, text.strip(), sink)
                fields["session"] = self.map(chat).current()[0]
            except (StorageError, OSError) as error:
                fields = _failed(str(error))
            except MemoryError:
                if self.mind:
                    self.mind.store.sleep()
                self.make_room()
                fields = _failed(NO_MEMORY)
            except Exception as error:
                # A fault of ours must not leave the person waiting.
                fields = _failed("This line failed inside the board ({!r}).".format(error))
            finally:
                if self.mind:
                    self.mind.worker.go_on()
        fields["ms"] = ticks_diff(ticks_ms(), started)
        return fields

    async def _line(self, chat, text, sink):
        if not text:
            # An empty line is neither sent nor stored (B40).
            return {"ok": True, "error": None}
        if text.startswith("/"):
            try:
                done, words = self._command(chat, text)
            finally:
                empty("upyclaw.commands", "upyclaw.memory_commands", "upyclaw.context_command")
                if self.mind:
                    self.mind.store.sleep()
            sink.text(words)
            return {"ok": done, "error": None}
        session = self.session(chat)
        for note in self.map(chat).take_notices() + session.take_notices():
            await sink.note(note)
        if session.blocked:
            return _failed(session.blocked_text())
        told = self.mind.obey(text) if self.mind and self.sees_memory(chat) else None
        if told and not told.more:
            return await self._told(session, text, told.sentence, sink)
        if not self.client.available:
            # No model, no turn: nothing is stored, as in the reference's gate (SPEC-session §6).
            return _failed(self.client.why)
        if told:
            await sink.note(told.sentence)
        fields = await self._turn(session, chat, text, told, sink)
        for note in session.take_notices():
            await sink.note(note)
        return fields

    def _command(self, chat, text):
        name, _, rest = text.partition(" ")
        if name in ("/memory", "/profile", "/context"):
            self.make_room()
            if name == "/context" and self.mind and self.sees_memory(chat):
                from upyclaw import context_command

                return True, context_command.run(self, chat, rest.strip())
            from upyclaw import memory_commands

            return memory_commands.run(self, chat, name, rest.strip())
        from upyclaw import commands

        return commands.run(self, chat, text)

    async def _told(self, session, text, sentence, sink):
        """An order to the memory was carried out: its confirmation is the answer (B58)."""
        sink.text(sentence)
        try:
            session.add_user(user_record(text, _CHARS), OPENAI)
            session.begin(FINAL, OPENAI)
            session.write(b'{"role":"assistant","content":"' + json_escape(sentence) + b'"}')
            session.end()
            session.finish()
        except StorageError as error:
            await sink.note("This turn is not saved: {}".format(error))
        return {"ok": True, "error": None}

    async def _turn(self, session, chat, text, told, sink):
        clock = ticks_us()
        extra = None
        try:
            session.add_user(user_record(text, _CHARS), OPENAI)
        except SessionBlocked:
            raise
        except StorageError as error:
            await sink.note("This turn is not saved: {}".format(error))
            session = _Unsaved(session)
            extra = text
        flash = ticks_diff(ticks_us(), clock)
        mind = self.mind if self.sees_memory(chat) else None
        turn = Turn(self, session, mind, text, extra, sink)
        running = asyncio.current_task(), turn
        self._turns.append(running)
        try:
            await turn.run()
        except asyncio.CancelledError:
            turn.error = turn.error or "Stopped."
        except MemoryError:
            turn.error = NO_MEMORY
        except Exception as error:
            # A fault of ours must not leave the person waiting, nor the session open.
            turn.error = "The turn failed inside the board ({!r}).".format(error)
        self._turns.remove(running)
        collect()
        try:
            session.finish()
        except StorageError as error:
            await sink.note("The end of this turn is not saved: {}".format(error))
        if mind:
            sid = self.map(chat).current()[1]
            mind.worker.pause()
            mind.worker.submit(sid, text, turn.facts.facts + list(told.facts if told else ()))
            note = mind.told(turn.facts.labels)
            if note:
                await sink.note(note)
        if turn.unreadable and session.sid not in self._damaged:
            self._damaged.append(session.sid)
            await sink.note(UNREADABLE.format(turn.unreadable))
        fields = _failed(turn.error) if turn.error else {"ok": True, "error": None}
        fields["usage"] = turn.usage
        fields["t"] = {"flash": flash}
        return fields


def _failed(sentence):
    return {"ok": False, "error": sentence}
