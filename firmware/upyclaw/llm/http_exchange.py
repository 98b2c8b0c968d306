"""One HTTP exchange with a model server: connect, send the request from flash, read the reply.

Owns the connection for that time. The key goes into the request's head and nowhere else (B30).
Whether a failed exchange is tried again is not decided here. The code that reads a reply is loaded
when the request is out and its code gone: a chip has no room for both.
"""

from upyclaw.compat import collect, sleep_ms, unload
from upyclaw.llm.errors import LLMError
from upyclaw.storage.files import size

_TIMED_OUT = 110  # errno as net/conn.py raises it
_GIVEN_UP = 125

_CONNECT = 15000  # ms to connect, and for TLS to agree
_BUFFER = 512


class Exchange:
    """`settings`: section model. `where`: (tls, host, port, path). `limit`: longest silence, ms.

    `address`: the server's, once it is known; may be given.
    """

    def __init__(self, settings, where, kind, limit):
        self.kind = kind
        self.address = None
        self._settings = settings
        self._where = where
        self._limit = limit
        self._conn = None
        self._aborted = False

    def abort(self):
        """Give it up: `run` raises soon."""
        self._aborted = True
        if self._conn:
            self._conn.abort()

    def close(self):
        """Close the connection."""
        if self._conn:
            self._conn.close()
            self._conn = None

    async def run(self, request, handler):
        """Do it. Raises LLMError, OSError, ValueError (TLS); see http_faults.py."""
        settings = self._settings
        if hasattr(request, "options"):
            request.model = settings["name"] or None
            request.options["max_tokens_field"] = settings["max_tokens_field"]
            if settings.get("no_temperature"):
                request.options["temperature"] = -1
        buf = bytearray(_BUFFER)
        size = 0
        for piece in request.pieces(buf):
            size += len(piece)
            # Whoever types meanwhile is heard.
            await sleep_ms(0)
        conn = self._conn = await self._connect()
        if self._aborted:
            conn.abort()
        try:
            await self._send(conn, request, buf, size)
        except OSError:
            # Who refuses a request may close before it is all there, and have said why.
            reply = await self._early(conn, buf)
            if reply is None:
                raise
        else:
            reply = self._reply(conn, buf, self._limit)
            await reply.head()
        if 300 <= reply.status < 400:
            raise LLMError("gone", "The model server sends us on to " + reply.location + ".")
        await self._read(reply, handler)

    def _reply(self, conn, buf, limit):
        collect()
        from upyclaw.llm.http_reply import Reply

        unload("upyclaw.llm.http_reply")
        return Reply(conn, buf, limit)

    async def _early(self, conn, buf):
        reply = self._reply(conn, buf, 1000)
        try:
            await reply.head()
        except (LLMError, OSError):
            return None
        return reply if reply.status >= 300 else None

    async def _connect(self):
        from upyclaw.net.conn import connect

        tls, host, port, _ = self._where
        if self.address is None:
            from upyclaw.net.dns import resolve

            self.address = await resolve(host)
            del resolve
            unload("upyclaw.net.dns", "upyclaw.net.udp")
        ca = None
        if tls:
            from upyclaw.net import clock

            if not clock.ready_for_tls():
                raise LLMError(
                    "gone", "The clock is not set, so that no certificate can be checked."
                )
            del clock
            unload("upyclaw.net.clock", "upyclaw.net.udp")
            ca = self._settings["ca"]
            if size(ca) < 0:
                raise LLMError(
                    "gone",
                    "https needs a root certificate: there is no {} (model.ca).".format(ca),
                )
        return await connect(self.address, port, _CONNECT, host, ca)

    async def _send(self, conn, request, buf, size):
        tls, host, port, path = self._where
        if port != (443 if tls else 80):
            host += ":{}".format(port)
        key = self._settings["api_key"]
        head = (
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
            "Accept: text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n{}{}\r\n"
        ).format(
            path,
            host,
            size,
            "Authorization: Bearer " + key + "\r\n" if key else "",
            "X-Upyclaw-Kind: " + self.kind + "\r\n" if self.kind != "chat" else "",
        )
        await conn.write(head.encode(), _CONNECT)
        for piece in request.pieces(buf):
            await conn.write(piece, _CONNECT)
            size -= len(piece)
        if size:
            raise LLMError("request", "The request changed while it was sent; try again.")

    async def _read(self, reply, handler):
        from upyclaw.llm.reader import ReplyReader

        unload("upyclaw.llm.reader")
        reader = ReplyReader(handler, reply.status, reply.retry_after)
        del ReplyReader
        drain = getattr(handler, "drain", None)
        try:
            while not reader.done:
                try:
                    part = await reply.part()
                except OSError as error:
                    if error.args[0] == _TIMED_OUT:
                        raise LLMError(
                            "timeout",
                            "The model sent nothing for {} seconds.".format(self._limit // 1000),
                        )
                    raise reply.cut() if error.args[0] != _GIVEN_UP else error
                if part is None:
                    break
                reader.feed(part)
                if drain:
                    await drain()
            reader.finish()
        except LLMError as error:
            # The request may go out again only where no word can have reached the handler.
            error.fresh = reply.status >= 300 or reply.whole  # type: ignore[attr-defined]
            raise
