"""A PC for link tests, the simplest that docs/link.md allows: one frame on its way at a time.

Written from the document alone, as a third implementation. The line in between is faulty on
demand; the board's input buffer holds 260 bytes.
"""

import asyncio
import binascii

from dice import Dice

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms

RX = 260
TICK_MS = 10  # of the board's link, so that its patience is short in tests
_DIGITS = b"0123456789abcdef"


class Line:
    """The board's port, and the wire to the peer. `faults`: per mille of lines that suffer."""

    def __init__(self, faults=0, seed=1):
        self.input = bytearray()
        self.event = asyncio.Event()
        self.peer = None
        self.faults = faults
        self.dice = Dice(seed)
        self.most = self.lost = 0
        self.deaf = False
        self.raw = bytearray()  # what the board wrote
        self._half = bytearray()

    # the port

    async def wait(self):
        while not self.input:
            self.event.clear()
            await self.event.wait()

    def readinto(self, buf):
        n = min(len(buf), len(self.input))
        buf[:n] = self.input[:n]
        self.input = self.input[n:]
        return n

    def write(self, data):
        if self.deaf:
            return 0
        self.raw += bytes(data)
        self._half += bytes(data)
        while True:
            at = self._half.find(b"\n")
            if at < 0:
                return len(data)
            line = bytes(self._half[: at + 1])
            self._half = self._half[at + 1 :]
            for piece in self.damaged(line):
                if self.peer:
                    self.peer.got(piece)

    # the wire

    def put(self, line):
        """A line from the PC reaches the board's buffer, as far as there is room."""
        for piece in self.damaged(line):
            room = RX - len(self.input)
            self.lost += max(0, len(piece) - room)
            self.input += piece[:room]
        self.most = max(self.most, len(self.input))
        self.event.set()

    def damaged(self, line):
        dice = self.dice
        if dice.below(1000) >= self.faults:
            return (line,)
        kind = dice.below(4)
        if kind == 0:
            return ()
        if kind == 1:
            return (line, line)
        if kind == 2:
            return (b"I (123) wifi: noise", line)
        broken = bytearray(line)
        broken[dice.below(len(line))] = dice.below(256)
        return (bytes(broken),)


def frame(head, payload=None):
    line = head if payload is None else head + payload
    return line + b"%06x\n" % (binascii.crc32(line) & 0xFFFFFF)


def escape(data):
    out = bytearray()
    for c in data:
        if c < 32 or c in (0x7E, 0x7F):
            out.append(0x7E)
            c ^= 0x40
        out.append(c)
    return bytes(out)


def unescape(data):
    out = bytearray()
    flip = 0
    for c in data:
        if c == 0x7E:
            flip = 0x40
            continue
        out.append(c ^ flip)
        flip = 0
    return bytes(out)


class Peer:
    """The PC. `messages`: (stream, bytes) that came; `others`: lines that are no frames."""

    def __init__(self, line):
        self.line = line
        line.peer = self
        self.epoch = 0
        self.messages = []
        self.others = []
        self._clear()

    def _clear(self):
        self.up = False
        self.seq = self.acked = self.expect = 0
        self.answered = -1
        self.held = False
        self.digit = 0
        self.naked = False
        self.parts = [b""] * 4

    async def sync(self):
        self.epoch += 1
        self._clear()
        while not self.up:
            self.line.put(b"\n" + frame(b"~uY1%02x00" % self.epoch))
            await self._until(lambda: self.up)

    def bye(self):
        self.line.put(frame(b"~uB0%02x00" % self.epoch))

    async def _until(self, ready, ms=60):
        start = ticks_ms()
        while not ready() and ticks_diff(ticks_ms(), start) < ms:
            await sleep_ms(1)
        return ready()

    async def send(self, stream, data):
        at = 0
        first = True
        while first or at < len(data):
            part = data[at : at + 60]
            last = at + 60 >= len(data)
            kind = (b"M", b"F", b"L", b"W")[first + 2 * last]
            await self._deliver(kind, stream, escape(part))
            at += 60
            first = False

    async def _deliver(self, kind, stream, payload):
        target = (self.seq + 1) & 255
        while True:
            head = b"~u%s%d%02x%02x%02x%02x" % (
                kind,
                stream,
                self.epoch,
                self.expect,
                self.seq,
                len(payload),
            )
            self.line.put(frame(head, payload))
            if not await self._until(lambda: self.acked == target):
                await self._probe(target)
            if self.acked == target:
                self.seq = target
                return

    async def _probe(self, target):
        while True:
            self.digit = (self.digit + 1) & 7
            self.answered = -1
            self.held = False
            self.line.put(b"~u?%d\n" % self.digit)
            await self._until(lambda: self.answered == self.digit)
            if self.answered == self.digit and not self.held:
                return

    def got(self, line):
        at = line.rfind(b"~u")
        body = line[at:-1]
        if at < 0:
            self.others.append(line)
            return
        if len(body) == 4 and body[2:3] == b"?":
            self._control(b"P", body[3] - 48)
            return
        try:
            good = int(body[-6:], 16) == binascii.crc32(body[:-6]) & 0xFFFFFF
        except ValueError:
            good = False
        if not good or len(body) < 14:
            self._missing()
            return
        kind = body[2:3]
        if int(body[4:6], 16) != self.epoch:
            return
        if kind == b"Z":
            self.up = True
            return
        self.acked = int(body[6:8], 16)
        if kind in (b"P", b"H"):
            self.held = kind == b"H"
            self.answered = body[3] - 48
        elif kind in (b"W", b"F", b"M", b"L"):
            self._data(kind, body)

    def _data(self, kind, body):
        ahead = (int(body[8:10], 16) - self.expect) & 255
        if 0 < ahead < 128:
            self._missing()
            return
        if ahead == 0:
            assert len(body) == 18 + int(body[10:12], 16)
            stream = body[3] - 48
            if kind in (b"F", b"W"):
                self.parts[stream] = b""
            self.parts[stream] += unescape(body[12:-6])
            if kind in (b"L", b"W"):
                self.messages.append((stream, self.parts[stream]))
            self.expect = (self.expect + 1) & 255
            self.naked = False
        self._control(b"A", 0)

    def _missing(self):
        if not self.naked and self.up:
            self.naked = True
            self._control(b"N", 0)

    def _control(self, kind, digit):
        if kind == b"P":
            self.naked = False
        self.line.put(frame(b"~u%s%d%02x%02x" % (kind, digit, self.epoch, self.expect)))


class Bench:
    """A board's link and a peer on one line."""

    def __init__(self, faults=0, seed=1):
        from upyclaw.channels.link import Link

        self.line = Line(faults, seed)
        self.log = []
        self.link = Link(self.line, self.log.append)
        self.link.tick_ms = TICK_MS
        self.peer = Peer(self.line)
        self.task = asyncio.create_task(self.link.run())

    def collect(self, stream):
        """Whole messages that reach the board on `stream`."""
        messages = []
        parts = []

        def take(part, end):
            parts.append(bytes(part))
            if end:
                messages.append(b"".join(parts))
                parts.clear()

        self.link.on(stream, take)
        return messages

    async def until(self, ready, ms=5000):
        """Wait until `ready()`; False after `ms`."""
        return await self.peer._until(ready, ms)

    def stop(self):
        self.task.cancel()
