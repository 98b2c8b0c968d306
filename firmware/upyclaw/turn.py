"""The model's part of one turn: request, streamed reply, tool rounds, until there is an answer.

Owns the loop and what ends it: an answer, a failure (B11), the user's stop, the stop rules of
tools (B59). The session gets a FINAL record in every case. Must not know channels, nor the user's
record: agent.py writes that before.
"""

import asyncio

from upyclaw.compat import collect
from upyclaw.llm.errors import LLMError
from upyclaw.llm.turn import TurnHandler
from upyclaw.prompt import Request, history_budget
from upyclaw.storage import FINAL, TOOL, StorageError, json_escape

OPENAI = 1  # backend_format of the records this board writes, spec/SPEC-session.md §3
_FRAME = 160  # bytes of a request around its sections

SYSTEM = (
    "You are a helpful assistant that lives on a small ESP32 board. "
    "You remember this conversation. Answer briefly, in the language of the user."
)
# For a model too small to call tools: each further word confuses it (tried with SmolLM2-135M).
SYSTEM_SMALL = (
    "You are a friendly assistant with a good memory. "
    "Use what the user said before to answer. Answer in one short sentence."
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
CUT = " \u2026 [cut off at the token limit]"


class TurnFacts:
    """What the tools of one turn are told, and tell: `untrusted` once text that is not the user's
    was read (B31); `facts` stored in this turn, which extraction must not store again (B58);
    `labels` of what changed; `make_room()`, async, frees heap once a turn, else MemoryError."""

    def __init__(self, make_room):
        self.make_room = make_room
        self.untrusted = False
        self.facts = []
        self.labels = []


def build_request(agent, session, tools, sections, notes="", extra=None, shrink=0):
    """The Request for `session` and the model that is there. `tools`: Registry or None;
    `sections`: system sections behind the instruction; `notes`: goes with the user's words;
    `extra`: a user message that is not in the session; `shrink`: halvings of the history."""
    model = agent.settings["model"]
    options = {
        "max_tokens": model["max_tokens"],
        "max_tokens_field": model["max_tokens_field"],
        "temperature": model["temperature"],
        "empty_content": model["empty_content"],
        "user": extra + "\n\n" + notes if extra and notes else extra,
        "notes": "" if extra else notes,
    }
    system = agent.settings["prompt"]["system"] or (SYSTEM if agent.client.tools else SYSTEM_SMALL)
    parts = [("", system)] + sections
    size = _FRAME + len(notes.encode())
    for _, text in parts:
        for piece in text() if callable(text) else (text,):
            size += len(piece) if isinstance(piece, bytes) else len(piece.encode())
    budget = history_budget(
        agent.client.context, model["max_tokens"], size, tools.size() if tools else 0
    )
    return Request(session, parts, budget >> shrink, tools, None, options)


class Turn:
    """Rounds of request, reply and tools. After `run`: `error` (a sentence, or None), `usage`,
    `facts` (TurnFacts), `unreadable` (records of the history that are not JSON)."""

    def __init__(self, agent, session, mind, text, extra, sink):
        self.error = None
        self.usage = None
        self.unreadable = 0
        self.facts = TurnFacts(self._make_room)
        self._agent = agent
        self._session = session
        self._sink = sink
        self._extra = extra
        self._shrink = 0  # halvings of the history, after the model said it is too long
        self._made_room = False
        self._mind = mind
        self._text = text
        self._tools = None
        self._sections: list | None = []
        self._notes = ""

    async def run(self):
        """Run to the end. Raises CancelledError after the record is closed."""
        try:
            self._prepare()
        except MemoryError:
            await self._make_room()
            self._prepare()
        rounds = None
        while True:
            kind, handler = await self._reply()
            if kind != TOOL:
                return
            if self._tools is None:
                self.error = "The model called a tool although it was offered none."
                self._close(self.error)
                return
            if rounds is None:
                from upyclaw.tools.rounds import ToolRounds

                rounds = ToolRounds(self._tools, self._agent.settings["model"]["rounds"])
            stop = await self._run_tools(rounds, handler.calls)
            if stop:
                self._sink.text(stop)
                self._close(stop)
                return

    def _prepare(self):
        """What of the request stays the same in all rounds."""
        mind = self._mind
        self._tools = self._agent.tools(mind is not None)
        if mind:
            self._sections = mind.sections(self._tools is not None)
            self._notes = mind.recalled(self._text)

    async def _make_room(self):
        """Once a turn: what the memory holds of the heap beside it goes. Raises MemoryError."""
        if self._made_room or not self._agent.mind:
            raise MemoryError
        self._made_room = True
        # The next request makes them anew.
        self._sections = None
        await self._agent.mind.give_way()

    async def _reply(self):
        """One request and its reply: (record type, handler); FINAL also if it failed."""
        while True:
            handler = TurnHandler(self._session, self._sink.text, OPENAI)
            handler.drain = self._sink.drain
            try:
                collect()
                if self._sections is None:
                    self._sections = self._mind.sections(True) if self._mind else []
                request = build_request(
                    self._agent,
                    self._session,
                    self._tools,
                    self._sections,
                    self._notes,
                    self._extra,
                    self._shrink,
                )
                await self._agent.client.chat(
                    request, handler, "chat", self._agent.settings["model"]["timeout"] * 1000
                )
                self.unreadable = request.unreadable
                if handler.cut and not handler.calls:
                    handler.on_text(CUT)
                kind = handler.finish()
                await self._sink.drain()
            except LLMError as error:
                if error.kind == "context" and not handler.words and self._shrink < 4:
                    self._shrink += 1
                    continue
                kind = self._broken(handler, error)
            except MemoryError:
                # Nothing was shown yet: it can go out anew.
                if handler.words or handler.calls:
                    raise
                await self._make_room()
                continue
            except asyncio.CancelledError:
                self._fail(handler, STOPPED)
                raise
            except StorageError as error:
                # The answer was shown; only its record is missing.
                await self._sink.note("This answer is not saved: {}".format(error))
                kind = TOOL if handler.calls else FINAL
            self.usage = handler.usage or self.usage
            return kind, handler

    async def _run_tools(self, rounds, calls):
        try:
            return await rounds.run(self._session, calls, self.facts, OPENAI)
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
            self._session.begin(FINAL, OPENAI)
            self._session.write(b'{"role":"assistant","content":"' + json_escape(text) + b'"}')
            self._session.end()
        except StorageError:
            pass
