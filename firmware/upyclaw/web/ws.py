"""The WebSocket of one page (RFC 6455): messages in, messages or streamed messages out.

Owns handshake and frames. microdot's own is not used because it keeps four copies of a message,
takes no fragments and knows no time limits. Must not know what the messages mean.
"""

import binascii
import hashlib

from upyclaw.compat import const, sleep_ms, ticks_diff, ticks_ms
from upyclaw.web.conn import WRITE_MS, Gone

MESSAGE = 4608  # bytes of one message from the page
IDLE_MS = 75000  # the page says something every 25 s; a silent one is gone
_FRAME_MS = const(8000)  # from the first byte of a message to its last
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT = const(1)
_CLOSE = const(8)


class Socket:
    """A WebSocket on `conn`. Several tasks may send; messages never mix."""

    def __init__(self, conn):
        self.conn = conn
        self._busy = False
        self._next = 0  # opcode of the next frame of the message being streamed

    async def accept(self, key):
        """Answer the handshake; `key` is the request's Sec-WebSocket-Key."""
        digest = binascii.b2a_base64(hashlib.sha1(key.encode() + _GUID).digest())[:-1]
        await self.conn.awrite(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + digest + b"\r\n\r\n"
        )

    async def receive(self, ms=IDLE_MS):
        """The next message as bytes-like; waits `ms` for it. Raises Gone: no more will come."""
        conn = self.conn
        out = None
        conn.limit(ms)
        while True:
            head = await conn.readexactly(2)
            conn.limit(_FRAME_MS)
            op = head[0] & 15
            last = head[0] & 128
            n = head[1] & 127
            if n == 126:
                n = int.from_bytes(await conn.readexactly(2), "big")
            # Reserved bits, no mask, a text in a text, a continuation of nothing, long control.
            wrong = head[0] & 0x70 or not head[1] & 128 or op not in (0, 1, 8, 9, 10)
            wrong = wrong or op < 2 and (op == 0) != (out is not None)
            if wrong or op > 2 and (n > 125 or not last):
                await self._bye(1002)
            if n + len(out or b"") > MESSAGE or head[1] & 127 == 127:
                await self._bye(1009)
            mask = await conn.readexactly(4)
            data = await conn.readexactly(n)
            for i in range(n):
                data[i] ^= mask[i & 3]
            if op == _CLOSE:
                await self._bye(1000)
            elif op == 9:
                await self.send(data, WRITE_MS, 10)
            elif op < 2:
                out = out + data if out else data
                if last:
                    conn.limit(0)
                    return out

    async def _bye(self, code):
        try:
            await self.send(code.to_bytes(2, "big"), 1000, _CLOSE)
        finally:
            self.conn.kill()
        raise Gone(128)

    async def send(self, data, ms=WRITE_MS, op=_TEXT):
        """Send one message (bytes-like) within `ms`. Raises Gone."""
        await self.begin(ms)
        try:
            await self._frame(128 | op, data, ms)
        finally:
            self._busy = False

    async def begin(self, ms=WRITE_MS):
        """Start a message that is streamed by `part` and must be ended by `end`."""
        start = ticks_ms()
        while self._busy:
            if ticks_diff(ticks_ms(), start) > ms:
                self.conn.kill()
                raise Gone(110)
            await sleep_ms(10)
        self._busy = True
        self._next = _TEXT

    async def part(self, data):
        """Send a piece of the message begun; it may end within a character."""
        if len(data):
            await self._frame(self._next, data, WRITE_MS)
            self._next = 0

    async def end(self):
        """The message is complete, or given up."""
        try:
            await self._frame(128 | self._next, b"", WRITE_MS)
        finally:
            self._busy = False

    async def _frame(self, first, data, ms):
        n = len(data)
        if n < 126:
            head = bytes((first, n))
        else:
            head = bytes((first, 126, n >> 8, n & 255))
        await self.conn.awrite(head + bytes(data), ms)
