"""The port under the link: bytes in and out, never blocking.

Owns stdin and stdout of the board, read and written as bytes (B24: text reads wait for the rest of
a character, and `readinto` on the chip waits until its buffer is full). Must not know frames.

A port is anything with these three methods; tests bring one in memory:

    await wait()        until something can be read
    readinto(buf) -> n  what is there now, up to len(buf); 0 if nothing
    write(data) -> n    bytes taken now; 0 if the other side takes nothing
"""

import asyncio
import sys

from upyclaw.compat import sleep_ms

# A write blocks when the line is slow; this much at 115,200 baud takes 6 ms.
_PIECE = 64


class StdioPort:
    """stdin.buffer and stdout.buffer under MicroPython: UART, USB or the simulated board."""

    def __init__(self):
        import select

        self._in = sys.stdin.buffer
        self._out = sys.stdout.buffer
        self._stream = asyncio.StreamReader(self._in)  # type: ignore[call-arg,arg-type]
        self._one = bytearray(1)
        self._got = False
        self._reads = select.poll()
        self._reads.register(self._in, select.POLLIN)
        self._writes = select.poll()
        self._writes.register(self._out, select.POLLOUT)

    async def wait(self):
        """Wait on asyncio's IO queue until a byte came; it is kept for `readinto`."""
        # One byte that the poll promised: the only read that never blocks on the chip.
        self._got = bool(await self._stream.readinto(self._one))  # type: ignore[attr-defined]
        if not self._got:
            await sleep_ms(100)  # end of input, as when a PTY has no reader: no busy loop

    def readinto(self, buf):
        """Move what has arrived into `buf`, return how many bytes."""
        n = 0
        one = self._one
        if self._got:
            self._got = False
            buf[0] = one[0]
            n = 1
        size = len(buf)
        while n < size and self._ready():
            if not self._in.readinto(one):
                break
            buf[n] = one[0]
            n += 1
        return n

    def _ready(self):
        for item in self._reads.ipoll(0):
            return item[1] & 1
        return False

    def write(self, data):
        """Write a piece of `data` if the line takes it; return its length, 0 if not now."""
        for item in self._writes.ipoll(0):
            if item[1] & 4:
                return self._out.write(data[:_PIECE]) or 0
        return 0
