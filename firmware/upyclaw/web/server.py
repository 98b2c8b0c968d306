"""The web server: microdot on the board's port, with limits that microdot does not have.

Owns the listening socket, the static files and the list of open pages. Must not know sessions or
memory: that is the clients' (client.py). Limits: `PAGES` pages, `CONNS` connections, files of
the table below and no others, no request bodies at all.
"""

import asyncio
import gc

from upyclaw.compat import const, sleep_ms, ticks_ms
from upyclaw.web.auth import Guard, host_ok, origin_ok
from upyclaw.web.client import Client
from upyclaw.web.conn import HEAD_MS, Conn, Gone
from upyclaw.web.ws import Socket

try:
    # Put there by the PC's flash/extra.py.
    from upyclaw.web import microdot  # type: ignore[attr-defined]
except ImportError:
    from microdot import microdot

PAGES = 4  # logged in
_STRANGERS = const(2)  # about to
CONNS = 6  # these and requests in work; a chip has about 10 sockets in all
_CHECK_MS = const(500)
_TURNS = const(3)  # of one chat: the one in work and those that wait behind it
_ALL_TURNS = const(6)
_WAITING = const(2)  # connections that wait for one in work to end
_TRIES = const(30)  # looks at it, every 100 ms
_LOW = const(12000)  # free bytes of heap below which nobody new comes in
STATIC = "/upyclaw/web/static/"
# What can be asked for; there is no way from a path to the file system.
_FILES = {
    "": ("index.html", "text/html; charset=UTF-8"),
    "app.css": ("app.css", "text/css"),
    "app.js": ("app.js", "text/javascript; charset=UTF-8"),
}
_HEADERS = (
    ("Content-Encoding", "gzip"),
    ("Cache-Control", "no-cache"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)


class Server:
    """Serves the page of `app` (app.py). `clients`: the pages that are logged in or about to."""

    def __init__(self, app):
        self.app = app
        self.guard = Guard()
        self.clients = []
        self._conns = []
        self._waiting = 0
        self._turns = []  # (task, chat)
        self._faults = 0
        request = microdot.Request
        request.max_content_length = request.max_body_length = 0
        microdot.Response.send_file_buffer_size = 512
        microdot.print_exception = self._fault
        self._web = microdot.Microdot()
        self._web.get("/ws")(self._socket)
        self._web.get("/<path:name>")(self._file)
        self._web.get("/")(self._file)

    async def run(self, host, port, ready, ours):
        """Serve at `host` while ours() is true; calls ready(port) when it listens. Raises OSError.

        Port 80 needs rights on a PC, or the set-up page has it: 8080 then.
        """
        try:
            server = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            if port != 80 or error.errno not in (13, 98):
                raise
            port = 8080
            server = await asyncio.start_server(self._serve, host, port)
        ready(port)
        try:
            while ours():
                await sleep_ms(_CHECK_MS)
                now = ticks_ms()
                for conn in self._conns:
                    if conn.late(now):
                        conn.limit(0)
                        conn.closed = True
                        conn.task.cancel()
        finally:
            server.close()
            for conn in self._conns:
                conn.task.cancel()

    def full(self):
        """True if no further page may log in."""
        return len([client for client in self.clients if client.chat]) >= PAGES

    def start(self, chat, turn):
        """Run coroutine `turn` of `chat` as a task; it lives on when its page is gone. False if
        too many wait already."""
        mine = [pair for pair in self._turns if pair[1] == chat]
        if len(mine) >= _TURNS or len(self._turns) >= _ALL_TURNS:
            turn.close()
            return False
        self._turns.append((asyncio.create_task(turn), chat))
        return True

    def ended(self):
        """The turn of the current task is over."""
        task = asyncio.current_task()
        self._turns = [pair for pair in self._turns if pair[0] is not task]

    def stop(self, chat):
        """End the turns of `chat`, those in work and those that wait."""
        for task, owner in self._turns:
            if owner == chat:
                task.cancel()

    def changed(self, source):
        """Tell the other pages of the same chat to look again."""
        for client in self.clients:
            if client is not source and client.chat == source.chat:
                asyncio.create_task(client.tell({"ev": "changed"}))

    def note(self, sid, sentence):
        """Tell the pages of the chat that session `sid` belongs to."""
        for client in self.clients:
            if client.chat and sid.startswith(client.chat + ":"):
                asyncio.create_task(client.tell({"ev": "note", "d": sentence}))

    def crowded(self):
        """True while several pages are open: their code stays in the heap then."""
        return len(self.clients) > 1

    # ---

    async def _serve(self, reader, writer):
        conn = Conn(reader, writer)
        try:
            if not await self._room():
                await conn.awrite(b"HTTP/1.0 503 Busy\r\nRetry-After: 5\r\n\r\n", 200)
                return
            self._conns.append(conn)
            conn.limit(HEAD_MS)
            await self._web.handle_request(conn, conn)
        except OSError:
            pass
        except Exception as error:  # MemoryError, and what microdot leaves uncaught
            self._fault(error)
        finally:
            if not conn.kept:
                self._drop(conn)

    async def _room(self):
        """True if one more connection may be served; waits a little for those in work."""
        for _ in range(_TRIES):
            if len(self._conns) < CONNS:
                return not _short_of_memory()
            if self._waiting >= _WAITING:
                break
            self._waiting += 1
            try:
                await sleep_ms(100)
            finally:
                self._waiting -= 1
        return False

    def _drop(self, conn):
        conn.close()
        if conn in self._conns:
            self._conns.remove(conn)

    def _fault(self, error):
        # In place of microdot's traceback on the serial line, which anybody could cause.
        self._faults += 1
        if self._faults < 4:
            self.app.log("upyclaw page: a request was refused ({!r}).".format(error))

    def _refused(self, request):
        """A reason to refuse the request (text, status), None if it may go on."""
        host = request.headers.get("Host") or ""
        app = self.app
        if not host_ok(host, (app.settings["name"], app.net.name if app.net else "localhost")):
            return "Wrong Host: use the board's address.", 421
        return None

    async def _file(self, request, **parts):
        refused = self._refused(request)
        if refused:
            return refused
        entry = _FILES.get(request.path[1:])
        if entry is None:
            return "Not found", 404
        headers = dict(_HEADERS)
        headers["Content-Type"] = entry[1]
        body = b"" if request.method == "HEAD" else open(STATIC + entry[0] + ".gz", "rb")
        return microdot.Response(body, 200, headers)

    async def _socket(self, request):
        refused = self._refused(request)
        if refused:
            return refused
        headers = request.headers
        if not origin_ok(headers.get("Origin"), headers.get("Host")):
            return "Wrong Origin", 403
        key = headers.get("Sec-WebSocket-Key") or ""
        upgrade = (headers.get("Upgrade") or "").lower() == "websocket"
        if not upgrade or len(key) != 24 or headers.get("Sec-WebSocket-Version") != "13":
            return "Not a WebSocket of version 13", 400
        strangers = [client for client in self.clients if not client.chat]
        if len(strangers) >= _STRANGERS:
            # Whoever holds the door without a token makes room for the next one.
            strangers[0].ws.conn.kill()
        conn = request.sock[0]
        ws = Socket(conn)
        await ws.accept(key)
        client = Client(self, ws)
        self.clients.append(client)
        # A task of its own: what microdot keeps of the request is forgotten.
        conn.kept = True
        conn.limit(0)
        conn.task = asyncio.create_task(self._page(client, conn))
        return microdot.Response.already_handled

    async def _page(self, client, conn):
        try:
            await client.run()
        except (Gone, ValueError, asyncio.CancelledError):
            pass
        except Exception as error:
            self._fault(error)
        finally:
            self.clients.remove(client)
            self._drop(conn)
            gc.collect()


def _short_of_memory():
    if not hasattr(gc, "mem_free"):
        return False
    if gc.mem_free() > _LOW * 2:
        return False
    gc.collect()
    return gc.mem_free() < _LOW
