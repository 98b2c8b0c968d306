"""Model requests over the network: any server with the OpenAI dialect, or the relay's own.

Owns the exchange: connect, request streamed from flash, reply streamed to the handler, another
try where one may help. One connection at a time: TLS takes 40 KB of a chip. Must not know
sessions or Wi-Fi. The key is sent to the server and goes nowhere else (B30).
"""

import asyncio

from upyclaw.compat import sleep_ms, unload
from upyclaw.llm.errors import LLMError
from upyclaw.llm.http_reply import Reply, cut
from upyclaw.llm.reader import ReplyReader

TIMED_OUT = 110  # errno as net/conn.py raises it
GIVEN_UP = 125

_CONNECT = 15000  # ms to connect, and for TLS to agree
_BUFFER = 512
_TRIES = 3


class HttpClient:
    """Client for the server of `settings["model"]`, with the API of LinkClient.

    `offline()`: "" if there is a network, else why not, in a sentence.
    """

    tools = True  # as far as anybody can tell; prompt.tools decides

    def __init__(self, settings, offline):
        self._settings = settings["model"]
        self._offline = offline
        self._lock = asyncio.Lock()
        self._address = None  # of the host, once it is known
        self._conn = None
        self._kind = ""  # of the request in work
        self._problem = ""
        self._where: tuple = ()
        try:
            from upyclaw.llm.url import endpoint

            self._where = endpoint(self._settings["base_url"])
        except ValueError as error:
            self._problem = str(error)
        unload("upyclaw.llm.url")

    @property
    def available(self):
        """True if there is a server to ask and a network to ask it over."""
        return not self.why

    @property
    def why(self):
        """The sentence for the user when `available` is False."""
        return self._problem or self._offline()

    @property
    def model(self):
        """The model's name, "" if the server chooses."""
        return self._settings["name"]

    @property
    def context(self):
        """Tokens that the model takes in all, from the settings."""
        return self._settings["context"]

    async def chat(self, request, handler, kind="chat", timeout_ms=300000):
        """Send `request`, pass the reply to `handler` as it comes.

        `request` has `pieces(buf)`, run twice or more; if it has `model` and `options` (see
        prompt.Request), the model's name and what the server was found to want go there.
        `timeout_ms`: longest silence of the server. A request of kind "chat" makes one of another
        kind give way. Raises LLMError.
        """
        if self.why:
            raise LLMError("gone", self.why)
        if kind == "chat" and self._kind not in ("", "chat") and self._conn:
            self._conn.abort()
        async with self._lock:
            self._kind = kind
            tries = 0
            while True:
                tries += 1
                try:
                    return await self._once(request, handler, kind, timeout_ms)
                except (LLMError, OSError, ValueError) as error:
                    pause = self._fault(error, request, tries)
                finally:
                    self._kind = ""
                    if self._conn:
                        self._conn.close()
                        self._conn = None
                await sleep_ms(pause)
                self._kind = kind

    def _fault(self, error, request, tries):
        """What a failed try means: ms to wait before the next one, or an LLMError raised."""
        from upyclaw.llm import http_faults

        try:
            if isinstance(error, OSError):
                self._address = None
            return http_faults.pause(
                error, request, self._settings, self._where, tries < _TRIES, tries
            )
        finally:
            del http_faults
            unload("upyclaw.llm.http_faults")

    async def _once(self, request, handler, kind, timeout_ms):
        settings = self._settings
        if hasattr(request, "options"):
            request.model = settings["name"] or None
            request.options["max_tokens_field"] = settings["max_tokens_field"]
            request.options["temperature"] = settings["temperature"]
        buf = bytearray(_BUFFER)
        size = 0
        for piece in request.pieces(buf):
            size += len(piece)
            # Whoever types meanwhile is heard.
            await sleep_ms(0)
        conn = self._conn = await self._connect()
        try:
            await self._send(conn, request, buf, size, kind)
        except OSError:
            # Who refuses a request may close before it is all there, and have said why.
            reply = await self._early(conn, buf)
            if reply is None:
                raise
        else:
            reply = Reply(conn, buf, timeout_ms)
            await reply.head()
        if 300 <= reply.status < 400:
            raise LLMError("gone", "The model server sends us on to " + reply.location + ".")
        await self._read(reply, handler, timeout_ms)

    async def _early(self, conn, buf):
        reply = Reply(conn, buf, 1000)
        try:
            await reply.head()
        except (LLMError, OSError):
            return None
        return reply if reply.status >= 300 else None

    async def _connect(self):
        from upyclaw.net.conn import connect

        tls, host, port, _ = self._where
        if self._address is None:
            from upyclaw.net.dns import resolve

            self._address = await resolve(host)
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
            try:
                with open(self._settings["ca"], "rb") as f:
                    ca = f.read(16384)
            except OSError:
                raise LLMError(
                    "gone",
                    "https needs a root certificate: there is no {} (model.ca).".format(
                        self._settings["ca"]
                    ),
                )
        return await connect(self._address, port, _CONNECT, host, ca)

    async def _send(self, conn, request, buf, size, kind):
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
            "X-Upyclaw-Kind: " + kind + "\r\n" if kind != "chat" else "",
        )
        await conn.write(head.encode(), _CONNECT)
        for piece in request.pieces(buf):
            await conn.write(piece, _CONNECT)
            size -= len(piece)
        if size:
            raise LLMError("request", "The request changed while it was sent; try again.")

    async def _read(self, reply, handler, timeout_ms):
        reader = ReplyReader(handler, reply.status, reply.retry_after)
        drain = getattr(handler, "drain", None)
        try:
            while not reader.done:
                try:
                    part = await reply.part()
                except OSError as error:
                    if error.args[0] == TIMED_OUT:
                        raise LLMError(
                            "timeout",
                            "The model sent nothing for {} seconds.".format(timeout_ms // 1000),
                        )
                    raise cut() if error.args[0] != GIVEN_UP else error
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
