"""Chat over the serial line: the link's chat stream and the bare console of a person.

Owns the queue of lines that wait, the events of an answer (docs/link.md, "Chat") and `stop`. Must
not know sessions or models: `answer(chat, text, sink)` does the work and returns the end event's
fields.

A sink is where an answer goes; see agent.py for what it must have.
"""

import asyncio
import json
import sys

from upyclaw.channels.link import LinkDown
from upyclaw.compat import Queue, json_loads, utf8_clean

LINE = 8192  # bytes of one chat message; told to the PC in `hello`
_WAITING = 4  # lines that may wait behind the one in work

TOO_LONG = "Your line is longer than {} bytes and was not taken; send it in parts.".format(LINE)
BUSY = "{} lines are waiting already; this one was not taken.".format(_WAITING)


class LinkSink:
    """Answer to line number `ident` of the PC (0: a note that answers nothing)."""

    def __init__(self, link, ident):
        self._link = link
        self.ident = ident
        self._text = []

    def text(self, piece):
        """Keep a piece of the answer until `drain`."""
        self._text.append(piece)

    async def drain(self):
        """Send what was kept. A link that is down swallows it: the answer is in the session."""
        if self._text:
            text = "".join(self._text)
            self._text = []
            await self._event("text", text)

    async def note(self, sentence):
        """Send a sentence beside the answer."""
        await self.drain()
        await self._event("note", sentence)

    async def end(self, fields):
        """Send the end event."""
        await self.drain()
        fields["id"] = self.ident
        fields["ev"] = "end"
        await self._send(fields)

    async def _event(self, name, text):
        await self._send({"id": self.ident, "ev": name, "d": text})

    async def _send(self, event):
        try:
            await self._link.send(1, json.dumps(event).encode())
        except LinkDown:
            pass


class ConsoleSink:
    """Answer to a line typed at a bare terminal: plain text."""

    def text(self, piece):
        """Print a piece of the answer."""
        sys.stdout.write(piece)

    async def drain(self):
        """Nothing waits."""

    async def note(self, sentence):
        """Print a sentence on a line of its own."""
        sys.stdout.write("\r\n" + sentence + "\r\n")

    async def end(self, fields):
        """End the answer's line; an error is printed."""
        error = fields.get("error")
        sys.stdout.write("\r\n" + (error + "\r\n" if error else "") + "> ")


class SerialChat:
    """Lines of chat `chat` from the link and the console, one after the other."""

    def __init__(self, link, chat, answer):
        self._link = link
        self._chat = chat
        self._answer = answer
        self._lines = Queue(_WAITING)
        self._part = b""
        self._over = False
        self._task = None
        self._now = None  # sink of the line in work
        link.on(1, self._take)
        link.on_line(self._typed)
        link.on_state(self._state)

    async def run(self):
        """Answer lines until cancelled."""
        while True:
            text, sink, problem = await self._lines.get()
            self._now = sink
            if problem:
                fields = {"ok": False, "error": problem}
            else:
                self._task = asyncio.create_task(self._answer(self._chat, text, sink))
                try:
                    fields = await self._task
                except asyncio.CancelledError:
                    if not self._task.done():
                        self._task.cancel()
                        raise
                    fields = {"ok": False, "error": "Stopped."}
                self._task = None
            await sink.end(fields)
            self._now = None

    def stop(self, ident=None):
        """End the answer in work early (`ident`: only if it answers that line)."""
        if self._task and (ident is None or getattr(self._now, "ident", None) == ident):
            self._task.cancel()

    def _state(self, up):
        self._part = b""
        self._over = False

    def _take(self, part, end):
        if len(self._part) + len(part) > LINE + 64:
            self._over = True
        elif not self._over:
            self._part += bytes(part)
        if not end:
            return True
        data, self._part = self._part, b""
        over, self._over = self._over, False
        if over:
            self._put("", LinkSink(self._link, _ident(data)), TOO_LONG)
            return True
        try:
            message = json_loads(data)
            ident = message.get("id", 0)
        except (ValueError, AttributeError):
            return True
        if message.get("stop"):
            self.stop(ident)
        elif isinstance(message.get("text"), str):
            self._line(message["text"], LinkSink(self._link, ident))
        return True

    def _typed(self, line):
        self._line(utf8_clean(line), ConsoleSink())

    def _line(self, text, sink):
        if text.strip() == "/stop" and self._task:
            # Not behind the line that it is meant to stop.
            self.stop()
            asyncio.create_task(sink.end({"ok": True, "error": None}))
        else:
            self._put(text, sink)

    def _put(self, text, sink, problem=None):
        if self._lines.full():
            # Refused in words at once; nothing is dropped without a word (B38).
            asyncio.create_task(sink.end({"ok": False, "error": BUSY}))
        else:
            self._lines.put_nowait((text, sink, problem))


def _ident(data):
    """The `id` at the beginning of a message that was too long to keep; 0 if it cannot be seen."""
    at = data.find(b'"id":')
    n = 0
    for c in data[at + 5 : at + 15]:
        if not 48 <= c <= 57:
            break
        n = n * 10 + c - 48
    return n if at >= 0 else 0
