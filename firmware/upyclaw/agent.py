"""One turn of the conversation, from the typed line to the records on flash.

Owns the order of things: user record durable first (B18), then request, streamed answer, tool
rounds, final record; a short note in place of an answer that failed (B11). Knows sessions, prompt
and the model client through their interfaces; must not know channels or serial lines. Answers go
to a `sink`:

    sink.text(str)            a piece of the answer (quick, kept until drain)
    await sink.drain()        pass on what is kept
    await sink.note(str)      a sentence beside the answer
"""

import asyncio
import gc

from upyclaw.compat import ticks_diff, ticks_ms, ticks_us
from upyclaw.llm.errors import LLMError
from upyclaw.llm.turn import TurnHandler
from upyclaw.prompt import Request, history_budget
from upyclaw.storage import FINAL, TOOL, SessionBlocked, StorageError, json_escape, user_record
from upyclaw.storage.chatmap import ChatMap

_OPENAI = 1  # backend_format of the records this board writes, spec/SPEC-session.md §3
_FRAME = 160  # bytes of a request around its sections
# A line is stored whole: the channels take no longer ones. (The reference cuts at 4,096
# characters before the model sees them, WEAKNESSES 12.)
_CHARS = 8192

SYSTEM = (
    "You are a helpful assistant that lives on a small ESP32 board. "
    "You remember this conversation. Answer briefly, in the language of the user."
)

# What the session keeps of a failed turn: short, and the same each time (B11).
_FAILED = {
    "auth": "key refused",
    "rate": "too many requests",
    "server": "server error",
    "empty": "empty answer",
    "html": "web page in place of an answer",
    "cut": "answer broke off",
    "context": "talk too long for the model",
    "timeout": "no answer in time",
    "gone": "model not reachable",
    "request": "request refused",
}
STOPPED = "[stopped by the user]"
NO_MEMORY = "Not enough memory for this turn; what was saved is whole."
CUT = " \u2026 [cut off at the token limit]"


class _Unsaved:
    """Stands for the session in a turn that the flash has no room for: reads, writes nothing."""

    def __init__(self, session):
        self._session = session
        self.entry = session.entry
        self.chunks = session.chunks

    @property
    def count(self):
        return self._session.count

    def _nothing(self, *args):
        pass

    begin = write = end = drop = sync = finish = _nothing


class Agent:
    """Runs turns. `store`: SessionStore, `client`: model client.

    `make_tools()` gives the Registry, when a model that calls tools is there for the first time.
    `parts`: further system sections for Request, (name, text or callable). `net`: Wifi or None.
    """

    def __init__(self, store, client, settings, make_tools):
        self.store = store
        self.client = client
        self.settings = settings
        self.parts = []
        self.net = None
        self._make_tools = make_tools
        self._tools = None
        self._maps = {}
        self._locks = {}

    def map(self, chat):
        """The ChatMap of chat key `chat`. Raises StorageError."""
        if chat not in self._maps:
            self._maps[chat] = ChatMap(self.store, chat)
        return self._maps[chat]

    def session(self, chat):
        """The current Session of a chat. Raises StorageError."""
        return self.store.open(self.map(chat).current()[1])

    def close(self):
        """Complete the indexes of all sessions, unless a turn is in work. Raises StorageError."""
        for lock in self._locks.values():
            if lock.locked():
                return
        for chat in self._maps:
            self.session(chat).close()

    def tools(self):
        """The Registry for the model that is there now; None if it gets no tools."""
        wanted = self.settings["prompt"]["tools"]
        if wanted == "off" or wanted == "auto" and not self.client.tools:
            return None
        if self._tools is None:
            self._tools = self._make_tools()
        return self._tools

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
                fields = await self._line(chat, text.strip(), sink)
                fields["session"] = self.map(chat).current()[0]
            except (StorageError, OSError) as error:
                fields = _failed(str(error))
            except MemoryError:
                gc.collect()
                fields = _failed(NO_MEMORY)
            except Exception as error:
                # A fault of ours must not leave the person waiting.
                fields = _failed("This line failed inside the board ({!r}).".format(error))
        fields["ms"] = ticks_diff(ticks_ms(), started)
        return fields

    async def _line(self, chat, text, sink):
        if not text:
            # An empty line is neither sent nor stored (B40).
            return {"ok": True, "error": None}
        if text[0] == "/":
            from upyclaw import commands

            done, words = commands.run(self, chat, text)
            sink.text(words)
            return {"ok": done, "error": None}
        session = self.session(chat)
        for note in self.map(chat).take_notices() + session.take_notices():
            await sink.note(note)
        if session.blocked:
            return _failed(session.blocked_text())
        if not self.client.available:
            # No model, no turn: nothing is stored, as in the reference's gate (SPEC-session §6).
            return _failed(self.client.why)
        fields = await self._turn(session, text, sink)
        for note in session.take_notices():
            await sink.note(note)
        return fields

    async def _turn(self, session, text, sink):
        clock = ticks_us()
        extra = None
        try:
            session.add_user(user_record(text, _CHARS), _OPENAI)
        except SessionBlocked:
            raise
        except StorageError as error:
            await sink.note("This turn is not saved: {}".format(error))
            session = _Unsaved(session)
            extra = text
        flash = ticks_diff(ticks_us(), clock)
        turn = _Turn(self, session, extra, sink)
        try:
            await turn.run()
        except asyncio.CancelledError:
            turn.error = "Stopped."
        except MemoryError:
            turn.error = NO_MEMORY
        except Exception as error:
            # A fault of ours must not leave the person waiting, nor the session open.
            turn.error = "The turn failed inside the board ({!r}).".format(error)
        gc.collect()
        try:
            session.finish()
        except StorageError as error:
            await sink.note("The end of this turn is not saved: {}".format(error))
        fields = _failed(turn.error) if turn.error else {"ok": True, "error": None}
        fields["usage"] = turn.usage
        fields["t"] = {"flash": flash}
        return fields


class _Turn:
    """The model's part of one turn: request, reply and tools until there is an answer."""

    def __init__(self, agent, session, extra, sink):
        self.error = None
        self.usage = None
        self._agent = agent
        self._session = session
        self._sink = sink
        self._extra = extra
        self._shrink = 0  # halvings of the history, after the model said it is too long

    async def run(self):
        """Run to the end; `error` is a sentence if it failed. The session gets a FINAL record."""
        agent = self._agent
        tools = agent.tools()
        rounds = None
        while True:
            kind, handler = await self._reply(tools)
            if kind != TOOL:
                return
            if tools is None:
                self.error = "The model called a tool although it was offered none."
                self._close(self.error)
                return
            if rounds is None:
                from upyclaw.tools.rounds import ToolRounds

                rounds = ToolRounds(tools, agent.settings["model"]["rounds"])
            stop = await self._run_tools(rounds, handler.calls)
            if stop:
                self._sink.text(stop)
                self._close(stop)
                return

    async def _reply(self, tools):
        """One request and its reply: (record type, handler); FINAL also if it failed."""
        while True:
            handler = TurnHandler(self._session, self._sink.text, _OPENAI)
            handler.drain = self._sink.drain
            try:
                gc.collect()
                await self._agent.client.chat(
                    self._request(tools),
                    handler,
                    "chat",
                    self._agent.settings["model"]["timeout"] * 1000,
                )
                if handler.cut and not handler.calls:
                    handler.on_text(CUT)
                kind = handler.finish()
                await self._sink.drain()
            except LLMError as error:
                if error.kind == "context" and not handler.words and self._shrink < 4:
                    self._shrink += 1
                    continue
                kind = self._broken(handler, error)
            except asyncio.CancelledError:
                self._fail(handler, STOPPED)
                raise
            except StorageError as error:
                # The answer was shown; only its record is missing.
                await self._sink.note("This answer is not saved: {}".format(error))
                kind = TOOL if handler.calls else FINAL
            self.usage = handler.usage or self.usage
            return kind, handler

    def _request(self, tools):
        settings = self._agent.settings
        model = settings["model"]
        options = {
            "max_tokens": model["max_tokens"],
            "max_tokens_field": model["max_tokens_field"],
            "temperature": model["temperature"],
            "empty_content": model["empty_content"],
            "user": self._extra,
        }
        system = settings["prompt"]["system"] or SYSTEM
        parts = [("", system)] + self._agent.parts
        budget = history_budget(
            self._agent.client.context,
            model["max_tokens"],
            len(system.encode()) + _FRAME,
            tools.size() if tools else 0,
        )
        return Request(self._session, parts, budget >> self._shrink, tools, None, options)

    async def _run_tools(self, rounds, calls):
        try:
            return await rounds.run(self._session, calls, self._sink, _OPENAI)
        except asyncio.CancelledError:
            self._close(STOPPED)
            raise

    def _broken(self, handler, error):
        self.error = error.message
        reason = _FAILED.get(error.kind, "server error")
        if error.status:
            reason += " {}".format(error.status)
        self._fail(handler, "[turn failed: {}]".format(reason))
        return FINAL

    def _fail(self, handler, note):
        try:
            handler.fail(note)
        except StorageError:
            # finish() tells about it; the user's record is durable all the same.
            pass

    def _close(self, text):
        """End the turn with a FINAL record of our own words."""
        try:
            self._session.begin(FINAL, _OPENAI)
            self._session.write(b'{"role":"assistant","content":"' + json_escape(text) + b'"}')
            self._session.end()
        except StorageError:
            pass


def _failed(sentence):
    return {"ok": False, "error": sentence}
