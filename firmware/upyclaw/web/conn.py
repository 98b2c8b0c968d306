"""One TCP connection with limits on time and size; stands in for microdot's reader and writer.

Owns the socket. Nothing here waits without end: reads have a deadline that the server's clock
checks (`due`), writes stop when the other side takes nothing for too long. So a slow, dead or
hostile client stalls nobody but itself (B24). Must not know HTTP beyond "lines, then bytes".
"""

import asyncio

from upyclaw.compat import MICROPYTHON, const, sleep_ms, ticks_add, ticks_diff, ticks_ms

HEAD_MS = 6000  # from the connection to the end of the request's head
WRITE_MS = 4000  # until the client has taken what one write sends
HEAD = 4096  # bytes of a request's head
_LINE = const(1024)  # bytes of one of its lines
_PIECE = const(256)


class Gone(OSError):
    """The client is gone, or too slow."""


class Conn:
    """The connection of the task that makes it. `peer`: the client's address, for the lock-out.

    `due`: tick at which the server cancels the task, None for never. `kept`: True if another task
    has taken the connection over.
    """

    def __init__(self, reader, writer):
        self.task = asyncio.current_task()
        self.closed = False
        self.kept = False
        self.due = None
        self.peer = _address(writer.get_extra_info("peername"))
        self._reader = reader
        self._writer = writer
        self._rest = b""
        self._head = HEAD
        self.limit(HEAD_MS)

    def limit(self, ms):
        """The next reads must be done within `ms`; 0 lifts the limit."""
        self.due = ticks_add(ticks_ms(), ms) if ms else None

    def late(self, now):
        """True if the time for reading is over."""
        return self.due is not None and ticks_diff(now, self.due) > 0

    def kill(self):
        """Nobody writes any more, and the server's clock ends the task soon."""
        self.closed = True
        self.limit(1)

    # what microdot calls

    async def readline(self):
        """One line of the request's head with its LF; ValueError if line or head is too long."""
        line = b""
        while True:
            part = self._rest or await self._reader.read(_PIECE)
            end = part.find(b"\n") + 1 or len(part)
            line += part[:end]
            self._rest = part[end:]
            self._head -= end
            if len(line) > _LINE or self._head < 0:
                raise ValueError("request too long")
            if not part or line[-1] == 10:
                return line

    async def readexactly(self, n):
        """A bytearray of `n` bytes. Raises Gone if the client hangs up before."""
        out = bytearray(max(n, 0))
        at = 0
        while at < n:
            part = self._rest or await self._reader.read(min(n - at, _PIECE))
            if not part:
                raise Gone(104)
            take = min(len(part), n - at)
            out[at : at + take] = part[:take]
            self._rest = part[take:]
            at += take
        return out

    async def awrite(self, data, ms=WRITE_MS):
        """Send all of `data` within `ms`. Raises Gone."""
        if self.closed:
            raise Gone(128)
        try:
            await self._write(data, ms)
        except OSError:
            self.kill()
            raise Gone(104)

    async def aclose(self):
        """Close the socket, unless another task goes on with it."""
        if not self.kept:
            self.close()

    def get_extra_info(self, name):
        """The client's address."""
        return self.peer

    # ---

    def close(self):
        """Close the socket now."""
        self.closed = True
        try:
            if MICROPYTHON:
                self._writer.s.close()
            else:
                self._writer.transport.abort()
        except OSError:
            pass

    if MICROPYTHON:

        async def _write(self, data, ms):
            # Straight to the socket, which never blocks: asyncio's drain() would wait for ever.
            view = memoryview(data)
            start = ticks_ms()
            while len(view):
                n = self._writer.s.write(view)
                if n:
                    view = view[n:]
                elif ticks_diff(ticks_ms(), start) > ms:
                    raise Gone(110)
                else:
                    await sleep_ms(20)
            await sleep_ms(0)

    else:

        async def _write(self, data, ms):
            self._writer.write(bytes(data))
            try:
                await asyncio.wait_for(self._writer.drain(), ms // 1000 + 1)
            except asyncio.TimeoutError:
                raise Gone(110)


def _address(peer):
    # The PC's MicroPython gives the raw sockaddr_in: family, port, four bytes of address.
    if isinstance(peer, (bytes, bytearray)):
        return bytes(peer[4:8])
    return peer[0] if peer else ""
