"""Writes the chat request: system sections, history from flash, tools.

Owns the body's frame and the system message; the history is History's, which is loaded for a
session only: the requests of memory have none. Must not hold the body: what it yields goes to the
wire at once.
"""

import json

from upyclaw.compat import collect, unload
from upyclaw.prompt.clean import NO_WORDS, is_blank, text_pieces
from upyclaw.storage.codec import json_escape

_READING = (
    "upyclaw.prompt.history",
    "upyclaw.prompt.plan",
    "upyclaw.prompt.message",
    "upyclaw.prompt.cursor",
)


class Request:
    """The body of a streamed chat-completions request, made piece by piece from flash.

    session  anything with `count`, `entry(i)` and `chunks(i, buf)`; None: no history
    parts    system sections: (name, text), or (name, callable that gives an iterable of bytes or
             str). Name "" for a text without a heading. Empty ones are left out.
    budget   bytes of history (see `history_budget`); the newest turn goes in any case
    tools    an object whose `schemas()` yields bytes, the elements of `tools`; None: no tools
    model    name for the `model` field, None to leave it out
    options  dict: "max_tokens" (int) and "max_tokens_field" (B44), "temperature" (tenths, -1:
             leave out), "empty_content" ("null", "empty", "omit": beside tool calls, B12),
             "reasoning" (False: never send it back, B04), "user" (str: a last user message that
             is not in the session), "tool_rounds" (send the calls and results of the history;
             by default if there are tools), "notes" (str: added to the newest user message, behind
             everything that stays the same from turn to turn), "sending" (called with True when
             the body begins to go out, with False when it is out)

    `report` after `pieces()`: list of (section, bytes). `unreadable`: records that are not JSON.
    """

    def __init__(self, session, parts, budget, tools=None, model=None, options=None):
        self.session = session
        self.parts = parts
        self.budget = budget
        self.tools = tools
        self.model = model
        self.options = options or {}
        self.report = []
        self.unreadable = 0
        self.first = 0  # the first record that was sent
        self._sent = 0

    def pieces(self, buf):
        """Yield the body in pieces: memoryviews of `buf` (bytearray, 64 bytes or more), each valid
        until the next. Every piece but the last fills `buf`."""
        view = memoryview(buf)
        size = len(buf)
        n = 0
        self._sent = 0
        sending = self.options.get("sending")
        if sending:
            sending(True)
        for data in self._body():
            at = 0
            end = len(data)
            self._sent += end
            while end - at >= size - n:
                take = size - n
                view[n:] = memoryview(data)[at : at + take]
                at += take
                n = 0
                yield view
            if at < end:
                view[n : n + end - at] = memoryview(data)[at:end]
                n += end - at
        if n:
            yield view[:n]
        if sending:
            sending(False)

    def release(self):
        """It will not be sent again: give back its texts, which are kilobytes. In place, because
        MicroPython's stacks hold on to what was passed through them."""
        self.parts.clear()
        self.options.clear()

    # The body

    def _body(self):
        self.report = []
        yield b"{"
        if self.model:
            yield b'"model":' + json.dumps(self.model).encode() + b","
        yield b'"stream":true,'
        yield self._settings()
        yield b'"messages":['
        yield from self._system()
        start = self._sent
        if self.session is None:
            yield from self._user()
        else:
            yield from self._history()
        self.report.append(("history", self._sent - start))
        yield b"]"
        if self.tools is not None:
            yield from self._tools()
        yield b"}"

    def _user(self):
        text = self.options.get("user") or ""
        yield (b"," if self.report else b"") + b'{"role":"user","content":"'
        if is_blank(text):
            yield NO_WORDS
        else:
            for piece in text_pieces(text):
                yield json_escape(piece)
        yield b'"}'

    def _history(self):
        from upyclaw.prompt.history import History

        # The code goes with the request: reply, tools and memory need the room.
        unload(*_READING)
        # Without tools in the request, servers and templates refuse messages that call some.
        tool_rounds = self.options.get("tool_rounds", self.tools is not None)
        history = History(self.session, self.budget, self.options, bool(self.report), tool_rounds)
        yield from history.messages()
        self.first = history.first
        self.unreadable = history.unreadable

    def _settings(self):
        options = self.options
        out = ""
        if options.get("max_tokens"):
            field = options.get("max_tokens_field", "max_tokens")
            out = '"{}":{},'.format(field, options["max_tokens"])
        tenths = options.get("temperature", -1)
        if tenths >= 0:
            out += '"temperature":{}.{},'.format(tenths // 10, tenths % 10)
        return out.encode()

    def _system(self):
        for name, text in self.parts:
            start = self._sent
            head = b"\\n\\n" if self.report else b'{"role":"system","content":"'
            if name:
                head += b"## " + json_escape(name) + b"\\n"
            for piece in text_pieces(text):
                if head:
                    if is_blank(piece.decode()):
                        continue
                    yield head
                    head = b""
                yield json_escape(piece)
            if not head:
                self.report.append((name or "instructions", self._sent - start))
        if self.report:
            yield b'"}'

    def _tools(self):
        start = self._sent
        # The words of the tools come from flash, to where the history's code was.
        collect()
        head = b',"tools":['
        for data in self.tools.schemas():
            yield head
            yield data
            head = b","
        if head == b",":
            yield b"]"
            self.report.append(("tools", self._sent - start))
