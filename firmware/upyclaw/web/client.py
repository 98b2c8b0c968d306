"""One page that is open somewhere: who it is, its questions and the answers to them.

Owns login, turns and the dispatch of operations (docs/web.md, "Messages"). The rarely used ones
are in api.py and history.py, loaded for the call. Must not know HTTP or frames.
"""

import asyncio
import json

from upyclaw.compat import const, json_loads, mem_free, ticks_diff, ticks_ms, unload
from upyclaw.storage import StorageError
from upyclaw.web.auth import OWNER, Locked
from upyclaw.web.conn import WRITE_MS, Gone

LINE = 4096  # bytes of one line of chat from a page, told in `hello`
_LOGIN_MS = const(10000)
_QUESTIONS = const(6)  # operations of one page that wait
_STALL_MS = const(
    3000
)  # what a page may hold up one turn in all; then the turn goes on without it

GREETING = "Long-term memory is one for all who own this board; guests never see it."


class WebSink:
    """Where the answer to message `ident` of a page goes (agent.py says what a sink has)."""

    def __init__(self, ws, ident):
        self._ws = ws
        self._id = ident
        self._text = []
        self._left = _STALL_MS

    def text(self, piece):
        """Keep a piece of the answer until `drain`."""
        self._text.append(piece)

    async def drain(self):
        """Send what was kept. A page that is gone or too slow swallows it: the session has it."""
        if self._text:
            text = "".join(self._text)
            self._text = []
            await self._send({"ev": "text", "d": text})

    async def note(self, sentence):
        """Send a sentence beside the answer."""
        await self.drain()
        await self._send({"ev": "note", "d": sentence})

    async def end(self, fields):
        """Send the end event."""
        await self.drain()
        fields["ev"] = "end"
        await self._send(fields)

    async def _send(self, event):
        if self._ws.conn.closed:
            return
        event["id"] = self._id
        start = ticks_ms()
        try:
            await self._ws.send(json.dumps(event).encode(), max(self._left, 100))
        except Gone:
            return
        self._left -= ticks_diff(ticks_ms(), start)
        if self._left < 0:
            self._ws.conn.kill()


class Client:
    """A page behind WebSocket `ws`. `server`: server.py. `chat`: its chat key once logged in."""

    def __init__(self, server, ws):
        self.server = server
        self.app = server.app
        self.ws = ws
        self.chat = ""
        self.owner = False
        self._one = asyncio.Lock()  # questions are answered one after the other
        self._asked = 0

    async def run(self):
        """Serve the page until it is gone. Raises Gone and what a broken message raises."""
        if not await self._login():
            return
        while True:
            await self._take(json_loads(await self.ws.receive()))

    async def say(self, event, ms=2000):
        """Send one event (a dict) within `ms`. Raises Gone."""
        await self.ws.send(json.dumps(event).encode(), ms)

    async def tell(self, event):
        """Send an event that answers nothing; never raises."""
        try:
            await self.say(event)
        except Gone:
            pass

    # ---

    async def _login(self):
        message = json_loads(await self.ws.receive(_LOGIN_MS))
        user = str(message.get("user", "me"))
        problem = "Wrong token: take the link that the board shows on its serial line."
        who = 0
        again = False  # the token may be right: the page keeps it and asks again later
        try:
            who = self.server.guard.check(str(message.get("token", "")), self.ws.conn.peer)
        except Locked as e:
            problem = "Too many wrong tokens; try again in {} s.".format(e.args[0])
            again = True
        if who and not _user_ok(user):
            who = 0
            problem = "A user's name has 1 to 16 letters, digits, _ or -."
        if who and self.server.full():
            who = 0
            problem = "Four pages are open already; close one."
            again = True
        if not who:
            await self.say({"ev": "refused", "d": problem, "again": again})
            self.ws.conn.kill()
            return False
        self.owner = who == OWNER
        self.chat = "chat:web:" + ("" if self.owner else "guest_") + user
        app = self.app
        await self.say(
            {
                "ev": "hello",
                "name": app.settings["name"],
                "board": app.board(),
                "owner": self.owner,
                "memory": self.mind() is not None,
                "line": LINE,
                "session": app.agent.map(self.chat).current()[0],
                "d": GREETING,
            }
        )
        return True

    def mind(self):
        """The long-term memory (mind.py) if this page may see it, else None (B32)."""
        return self.app.mind if self.app.sees_memory(self.chat) else None

    async def _take(self, message):
        op = message.get("op")
        ident = message.get("id", 0)
        if op == "ping":
            await self.say({"ev": "pong"})
        elif op == "stop":
            self.server.stop(self.chat)
        elif op == "chat" and isinstance(message.get("text"), str):
            self.start(ident, message["text"])
        elif op in ("page", "sessions", "status", "memory", "profile", "session"):
            if self._asked < _QUESTIONS:
                # Beside reading: a change of session waits for the turn in work, `stop` must not.
                self._asked += 1
                asyncio.create_task(self._api(op, ident, message))
                return
            await self._end(ident, {"ok": False, "error": "Too many questions at once."})
        else:
            await self._end(ident, {"ok": False, "error": "Not understood."})

    def start(self, ident, line):
        """Answer `line` in a task of its own, so that the page can say `stop` meanwhile."""
        sink = WebSink(self.ws, ident)
        problem = None
        if len(line.encode()) > LINE:
            problem = "Your line is longer than {} bytes; send it in parts.".format(LINE)
        elif not self.server.start(self.chat, self._turn(line, sink)):
            problem = "Other lines are waiting already; this one was not taken."
        if problem:
            asyncio.create_task(sink.end({"ok": False, "error": problem}))

    async def _turn(self, line, sink):
        try:
            try:
                fields = await self.app.answer(self.chat, line, sink)
            except asyncio.CancelledError:
                fields = {"ok": False, "error": "Stopped."}
            await sink.end(fields)
        finally:
            self.server.ended()
        self.server.changed(self)

    async def _api(self, op, ident, message):
        try:
            async with self._one:
                await self._end(ident, await self._fields(op, ident, message))
        except Gone:
            pass
        except MemoryError:
            self.ws.conn.kill()
        finally:
            self._asked -= 1
        if not self.server.crowded():
            unload("upyclaw.web.history", "upyclaw.web.api")

    async def _fields(self, op, ident, message):
        """Carry out operation `op`: sends its items, returns the fields of its end."""
        try:
            if op == "page":
                from upyclaw.web import history

                return await history.page(self, ident, message)
            from upyclaw.web import api

            return await api.run(self, op, ident, message)
        except Gone:
            raise
        except (ValueError, TypeError, KeyError) as error:
            return {"ok": False, "error": "Not understood: {}.".format(error)}
        except (StorageError, OSError) as error:
            return {"ok": False, "error": str(error)}

    async def _end(self, ident, fields):
        event = {"ok": True, "heap_free": mem_free()}
        event.update(fields)
        event["ev"] = "end"
        event["id"] = ident
        await self.say(event, WRITE_MS)


def _user_ok(user):
    for ch in user:
        if not ("a" <= ch.lower() <= "z" or "0" <= ch <= "9" or ch in "_-"):
            return False
    return 0 < len(user) <= 16
