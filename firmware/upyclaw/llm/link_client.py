"""Model requests over the link: the PC's relay answers them.

Owns streams 2 (chat) and 3 (memory extraction): request out piece by piece, reply in through a
small buffer (docs/link.md, "Model"). Must not know files or prompts, and never holds a whole
request or reply.
"""

import asyncio

from upyclaw.channels.link import LinkDown
from upyclaw.channels.outbox import PAYLOAD
from upyclaw.compat import json_loads, sleep_ms, ticks_diff, ticks_ms, unload
from upyclaw.llm.errors import LLMError

_REPLY = 512  # bytes of a reply that wait to be read; the host is held back when it is full
_HEADER = 256  # longest first line of a reply

_STREAMS = {"chat": 2, "extract": 3}

NO_RELAY = (
    "No model is connected: start `upyclaw chat` or `upyclaw relay` with a provider on the PC."
)
RELAY_GONE = "The model's relay on the PC went away in the middle of the answer; try again."


class _Lane:
    """One stream: the request in work and the reply bytes that wait for it."""

    def __init__(self, link, stream):
        self.stream = stream
        self.link = link
        self.lock = asyncio.Lock()
        self.event = asyncio.Event()
        self.buf = bytearray(_REPLY)
        self.view = memoryview(self.buf)
        self.id = 0  # of the request in work, 0: none
        self.head = None  # the reply's first line, parsed
        self.gone = False
        self._forget()

    def _forget(self):
        self.n = 0
        self.ended = False
        self.refused = False
        self._open = False  # a message is coming in and its first line is complete
        self._skip = False

    def begin(self, ident):
        self.id = ident
        self.head = None
        self.gone = False
        self.ended = False
        self.n = 0

    def close(self):
        """No request in work any more; what still comes for it is thrown away."""
        self.id = 0
        self.n = 0
        self._skip = self._open
        self.free()

    def lost(self):
        """The session or the relay is gone."""
        self.gone = True
        self.event.set()

    def session(self, up):
        """A session began or ended: half a message will never be finished."""
        self._forget()
        self.lost()

    def free(self):
        if self.refused:
            self.refused = False
            self.link.release(self.stream)

    def take(self, part, end):
        """A part of a reply from the link; False if there is no room."""
        size = len(part)
        if not self._skip:
            if self.n + size > _REPLY:
                if self._open:
                    self.refused = True
                    return False
                self._skip = True
            else:
                self.view[self.n : self.n + size] = part
                self.n += size
                if not self._open:
                    self._header()
        if end:
            self.ended = self.ended or (self._open and not self._skip)
            self._open = self._skip = False
        self.event.set()
        return True

    def _header(self):
        """Look for the first line; a reply that is not for the request in work is skipped."""
        stop = self.buf.find(b"\n", 0, self.n)
        if stop < 0:
            self._skip = self.n > _HEADER
        else:
            try:
                head = json_loads(bytes(self.view[:stop]))
                self._skip = not self.id or head.get("id") != self.id
            except (ValueError, AttributeError):
                self._skip = True
            if not self._skip:
                self.head = head
                self._open = True
                left = self.n - stop - 1
                self.view[:left] = bytes(self.view[stop + 1 : self.n])
                self.n = left
                return
        if self._skip:
            self.n = 0


class LinkClient:
    """Client for the model behind the PC's relay. `link`, `control`: channels/link.py, control.py.

    One request per kind at a time; a second one waits.
    """

    def __init__(self, link, control):
        self._link = link
        self._control = control
        self._lanes = {}
        self._last = 0
        self._piece = bytearray(256)
        self._packet = bytearray(PAYLOAD)
        self._lane("chat")
        link.on_state(self._session)
        control.on_relay(self._relay)

    @property
    def available(self):
        """True if a relay answers model requests."""
        return self._link.attached and self._control.relay is not None

    @property
    def why(self):
        """The sentence for the user when `available` is False."""
        return self._control.problem or NO_RELAY

    @property
    def model(self):
        """The model's name, "" if unknown."""
        return str((self._control.relay or {}).get("model") or "")

    @property
    def context(self):
        """Tokens that the model takes in all."""
        value = (self._control.relay or {}).get("context")
        return value if isinstance(value, int) and value > 0 else 8192

    @property
    def tools(self):
        """True unless the relay says that its model does not call tools."""
        return (self._control.relay or {}).get("tools") is not False

    async def chat(self, request, handler, kind="chat", timeout_ms=300000):
        """Send `request` (has `pieces(buf)`), pass the reply to `handler` as it comes.

        `timeout_ms` is the longest silence of the model. `handler` may have an async `ready()`,
        awaited before the reply is read, and `drain()`, awaited after each piece, so that a slow
        taker slows the sender.
        Raises LLMError; its kind is "gone" if there is no relay or the relay leaves.
        """
        if not self.available:
            raise LLMError("gone", self.why)
        lane = self._lane(kind)
        async with lane.lock:
            self._last += 1
            ident = self._last
            lane.begin(ident)
            watch = asyncio.create_task(self._watch(lane, min(1000, timeout_ms // 4 + 1)))
            try:
                await self._send(lane, ident, kind, request)
                # The reply takes its time.
                if hasattr(request, "release"):
                    request.release()
                await self._receive(lane, handler, timeout_ms)
            except LinkDown:
                raise LLMError("gone", RELAY_GONE)
            finally:
                # The code that reads goes with the reply, as that of the request has gone.
                unload("upyclaw.llm.reader")
                watch.cancel()
                if not lane.ended and not lane.gone:
                    self._link.abandon(lane.stream)
                    self._control.post({"op": "cancel", "id": ident})
                lane.close()

    def _lane(self, kind):
        if kind not in self._lanes:
            lane = _Lane(self._link, _STREAMS[kind])
            self._lanes[kind] = lane
            self._link.on(lane.stream, lane.take)
        return self._lanes[kind]

    def _session(self, up):
        for lane in self._lanes.values():
            lane.session(up)

    def _relay(self, relay):
        if relay is None:
            for lane in self._lanes.values():
                lane.lost()

    async def _watch(self, lane, step):
        """Wake the receiver now and then, so that it looks at the clock."""
        while True:
            await sleep_ms(step)
            lane.event.set()

    async def _send(self, lane, ident, kind, request):
        # Small pieces share a frame.
        packet = self._packet if kind == "chat" else bytearray(PAYLOAD)
        room = memoryview(packet)
        head = ('{"id":%d,"kind":"%s"}\n' % (ident, kind)).encode()
        n = len(head)
        room[:n] = head
        for piece in request.pieces(self._piece if kind == "chat" else bytearray(256)):
            view = memoryview(piece)
            at = 0
            while at < len(view):
                if n == PAYLOAD:
                    await self._pass(lane, room, False)
                    n = 0
                k = min(PAYLOAD - n, len(view) - at)
                room[n : n + k] = view[at : at + k]
                n += k
                at += k
        await self._pass(lane, room[:n], True)

    async def _pass(self, lane, data, end):
        if lane.gone:
            raise LinkDown()
        await self._link.send(lane.stream, data, end)

    async def _receive(self, lane, handler, timeout_ms):
        reader = None
        drain = getattr(handler, "drain", None)
        heard = ticks_ms()
        while True:
            if lane.gone:
                raise LinkDown()
            if reader is None and lane.head is not None:
                if hasattr(handler, "ready"):
                    await handler.ready()
                from upyclaw.llm.reader import ReplyReader

                status = lane.head.get("status")
                reader = ReplyReader(
                    handler,
                    status if isinstance(status, int) else 200,
                    lane.head.get("retry_after"),
                )
            if reader and lane.n:
                heard = ticks_ms()
                # No other task runs during feed: the buffer is all ours.
                n = lane.n
                lane.n = 0
                reader.feed(lane.view[:n])
                lane.free()
                if drain:
                    await drain()
                    heard = ticks_ms()
            elif reader and lane.ended:
                reader.finish()
                return
            elif ticks_diff(ticks_ms(), heard) > timeout_ms:
                raise LLMError(
                    "timeout",
                    "The model sent nothing for {} seconds.".format(timeout_ms // 1000),
                )
            else:
                lane.event.clear()
                await lane.event.wait()
