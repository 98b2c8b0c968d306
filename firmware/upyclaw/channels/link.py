"""The link: several streams of messages over one serial line that a person can also read.

Owns framing, check sums, order, resending and flow control, as docs/link.md lays down; the board's
side of it. Must not touch hardware (serial.py does) and must not know what the messages mean.

One line of text is one frame. What the host has sent and we have not read never exceeds the input
buffer of the chip, because nothing is ever sent again before the other side has said that all
earlier bytes are gone from the line (probe and answer).
"""

import asyncio
import binascii

from upyclaw.compat import const, sleep_ms, ticks_diff, ticks_ms

VERSION = 1  # of the frames; the sync frame carries it
RX = 260  # bytes of the chip's input buffer, told to the host in `hello`
LINE = 1024  # longest line that a person may type, bytes
STREAMS = const(4)

_SLOTS = const(4)  # frames that may wait for their ack; docs/link.md fixes this number
_FRAME = const(256)
_HEAD = const(12)  # ~u kind stream epoch(2) ack(2) seq(2) length(2)
_TAIL = const(7)  # check sum (6) and LF
PAYLOAD = 237  # _FRAME - _HEAD - _TAIL: bytes of a message that one frame carries at most
_SMALL = const(256)  # line buffer while nobody types long lines

# what the pump has to send beside data, highest first
_SYNC = const(1)
_RESET = const(2)
_ANSWER = const(4)
_HOLD = const(8)
_NAK = const(16)
_ACK = const(32)
_PROBE = const(64)

_HEX = b"0123456789abcdef"
_PARTS = (77, 70, 76, 87)  # M F L W; bit 0 of the index: first part, bit 1: last part

TOO_LONG = b"\r\nThis line is longer than 1,024 bytes and was refused: use `upyclaw chat`.\r\n"


class LinkDown(Exception):
    """There is no session with the PC, or it ended while something was being sent."""


def _hex(buf, at, n):
    """The number in `n` lower-case hex digits at `at`, -1 if they are none."""
    value = 0
    for i in range(at, at + n):
        c = buf[i]
        if 48 <= c <= 57:
            value = value << 4 | c - 48
        elif 97 <= c <= 102:
            value = value << 4 | c - 87
        else:
            return -1
    return value


def _put_hex(buf, at, n, value):
    for i in range(at + n - 1, at - 1, -1):
        buf[i] = _HEX[value & 15]
        value >>= 4


def _sum(view):
    return binascii.crc32(view) & 0xFFFFFF


def unescape(buf, a, b):
    """Undo the escapes of buf[a:b] in place; return the new end."""
    i = buf.find(b"~", a, b)
    if i < 0:
        return b
    out = i
    while i < b:
        c = buf[i]
        if c == 0x7E and i + 1 < b:
            i += 1
            c = buf[i] ^ 0x40
        buf[out] = c
        out += 1
        i += 1
    return out


class Link:
    """The board's end. `port`: see serial.py. `log(str)`: told about handlers that failed.

    `attached`: a client said hello and is alive; set by whoever handles `hello`, cleared here.
    """

    tick_ms = 250

    def __init__(self, port, log=None):
        self.attached = False
        self.rx_bytes = self.tx_bytes = self.rx_frames = self.tx_frames = 0
        self.resent = self.damaged = 0
        self._port = port
        self._log = log
        self._fns = [None] * STREAMS
        self._states = []
        self._line_fn = None
        self._in = bytearray(64)
        self._line = bytearray(_SMALL)
        self._fill = 0
        self._over = False
        self._typed = False  # the line so far was typed by a person
        self._out = bytearray(_SLOTS * _FRAME)
        self._view = memoryview(self._out)
        self._lens = [0] * _SLOTS
        self._ctl = bytearray(15)
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._writing = False
        self._epoch = -1
        self._digit = 0  # of our last probe
        self._asked = 48  # digit of the host's last probe, as a character
        self._due = _RESET
        self._age = 0  # sessions so far
        self._held = False  # a handler refused the next part
        self._clear()

    # -- what others use

    def on(self, stream, fn):
        """Call fn(memoryview, end) with each part of a message on `stream`, quickly, in order.

        The view is valid during the call. `fn` may return False: then it took nothing, the host
        waits, and offers the same part again after `release()`.
        """
        self._fns[stream] = fn

    def on_line(self, fn):
        """Call fn(bytes) with each line that a person typed while no client is connected."""
        self._line_fn = fn

    def on_state(self, fn):
        """Call fn(up) when a session with the PC begins (True) or ends (False)."""
        self._states.append(fn)

    @property
    def up(self):
        """A session exists (a client synchronised; it may not have said hello yet)."""
        return self._epoch >= 0

    async def run(self):
        """Serve the line until cancelled."""
        tasks = [asyncio.create_task(work) for work in (self._read(), self._pump(), self._tick())]
        try:
            await asyncio.gather(*tasks)
        finally:
            # When one fails, the others must not go on beside those of the next run.
            for task in tasks:
                task.cancel()

    async def send(self, stream, data, end=True):
        """Send one message, or a part of it (`end` False). Raises LinkDown.

        Waits for the window. Messages of different tasks on one stream never mix: the second task
        waits until the first one has sent its last part. Returns when `data` was copied.
        """
        me = asyncio.current_task()
        age = self._age
        try:
            while self._owner[stream] not in (None, me):
                await self._wait_room(age)
            self._owner[stream] = me
            view = memoryview(data)
            at = 0
            while at < len(view) or end:
                while (self._next - self._una) & 255 >= _SLOTS:
                    await self._wait_room(age)
                if self._epoch < 0 or age != self._age:
                    raise LinkDown()
                at += self._build(stream, view, at, end)
                self._wake.set()
                if at == len(view):
                    break
                await sleep_ms(0)  # let the other streams have a turn
        except BaseException:
            if age == self._age and self._owner[stream] is me:
                self.abandon(stream)
            raise
        if end:
            self._owner[stream] = None
            self._room.set()

    def abandon(self, stream):
        """Break off the message that is being sent on `stream`; the host drops its beginning."""
        self._owner[stream] = None
        self._begun[stream] = False
        self._room.set()

    def release(self, stream):
        """The handler of `stream` that returned False has room again."""
        if self._held:
            self._held = False
            self._ask(_NAK)

    async def console(self, data):
        """Write text for a person (log for a client); dropped if nobody takes it for 0.5 s."""
        start = ticks_ms()
        at = 0
        view = memoryview(data)
        while at < len(view):
            n = 0 if self._writing else self._port.write(view[at:])
            at += n
            if not n:
                if ticks_diff(ticks_ms(), start) > 500:
                    return
                await sleep_ms(10)

    def counters(self):
        """Figures since start: bytes and frames both ways, frames sent again, damaged lines."""
        return {
            "rx_bytes": self.rx_bytes,
            "tx_bytes": self.tx_bytes,
            "rx_frames": self.rx_frames,
            "tx_frames": self.tx_frames,
            "resent": self.resent,
            "damaged": self.damaged,
        }

    # -- state

    def _clear(self):
        self._una = self._next = self._cur = 0  # oldest unacked, next to build, next to write
        self._high = 0  # next one that was never written
        self._expect = 0
        self._naked = self._held = self._probing = False
        self._quiet = self._stall = 0
        self._patience = 2  # ticks without progress before we probe
        self._age += 1
        self._owner = [None] * STREAMS
        self._begun = [False] * STREAMS

    def _session(self, epoch):
        was = self._epoch >= 0
        self._epoch = epoch
        self.attached = False
        self._clear()
        self._room.set()
        for fn in self._states:
            if was:
                fn(False)
            if epoch >= 0:
                fn(True)

    def _ask(self, what):
        self._due |= what
        self._wake.set()

    async def _wait_room(self, age):
        if self._epoch < 0 or age != self._age:
            raise LinkDown()
        self._room.clear()
        await self._room.wait()

    # -- sending

    def _build(self, stream, src, at, last):
        """Put what fits of src[at:] into the next slot; return how much that is."""
        slot = self._next % _SLOTS
        base = slot * _FRAME
        start = base + _HEAD
        out = self._out
        n = min(PAYLOAD, len(src) - at)
        size = n
        self._view[start : start + n] = src[at : at + n]
        # Look for what needs escaping with calls that loop in C; text rarely has any.
        if n and (
            min(self._view[start : start + n]) < 32
            or out.find(b"~", start, start + n) >= 0
            or out.find(b"\x7f", start, start + n) >= 0
        ):
            n, size = self._escape(src, at, n, start)
        first = not self._begun[stream]
        last = last and at + n == len(src)
        self._begun[stream] = not last
        out[base] = 0x7E
        out[base + 1] = 0x75
        out[base + 2] = _PARTS[first | last << 1]
        out[base + 3] = 48 + stream
        _put_hex(out, base + 4, 2, self._epoch)
        _put_hex(out, base + 8, 2, self._next)
        _put_hex(out, base + 10, 2, size)
        self._lens[slot] = _HEAD + size + _TAIL
        self._next = (self._next + 1) & 255
        return n

    def _escape(self, src, at, n, start):
        out = self._out
        to = start
        stop = start + PAYLOAD
        for i in range(n):
            c = src[at + i]
            if c < 32 or c == 0x7E or c == 0x7F:
                if to + 2 > stop:
                    return i, to - start
                out[to] = 0x7E
                c ^= 0x40
                to += 1
            elif to >= stop:
                return i, to - start
            out[to] = c
            to += 1
        return n, to - start

    async def _pump(self):
        """The only writer of frames."""
        while True:
            if self._due:
                await self._write_control()
            elif self._cur != self._next and not self._probing:
                await self._write_frame()
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _write_frame(self):
        slot = self._cur % _SLOTS
        base = slot * _FRAME
        n = self._lens[slot]
        out = self._out
        _put_hex(out, base + 6, 2, self._expect)
        _put_hex(out, base + n - 7, 6, _sum(self._view[base : base + n - 7]))
        out[base + n - 1] = 10
        self._due &= ~_ACK
        if self._cur == self._high:
            self._high = (self._cur + 1) & 255
            self.tx_frames += 1
        else:
            self.resent += 1
        self._cur = (self._cur + 1) & 255
        await self._write(self._view[base : base + n])

    async def _write_control(self):
        due = self._due
        digit = 48
        epoch = self._epoch
        number = self._expect
        if due & _PROBE:
            self._due &= ~_PROBE
            self._digit = (self._digit + 1) & 7
            await self._write(b"~u?%d\n" % self._digit)
            return
        if due & _RESET or epoch < 0:
            kind = b"R"
            epoch = number = 0
            self._due = 0
        elif due & _SYNC:
            kind = b"Z"
            digit += VERSION
            self._due = 0
        elif due & (_ANSWER | _HOLD):
            kind = b"H" if self._held else b"P"
            digit = self._asked if due & _ANSWER else 57  # 9: nobody asked
            self._due &= ~(_ANSWER | _HOLD | _NAK | _ACK)
        elif due & _NAK:
            kind = b"N"
            self._due &= ~(_NAK | _ACK)
        else:
            kind = b"A"
            self._due &= ~_ACK
        ctl = self._ctl
        ctl[0:3] = b"~u" + kind
        ctl[3] = digit
        _put_hex(ctl, 4, 2, epoch)
        _put_hex(ctl, 6, 2, number)
        _put_hex(ctl, 8, 6, _sum(memoryview(ctl)[:8]))
        ctl[14] = 10
        await self._write(memoryview(ctl))

    async def _write(self, view):
        self._writing = True
        try:
            at = 0
            while at < len(view):
                n = self._port.write(view[at:])
                at += n
                self.tx_bytes += n
                if not n:
                    await sleep_ms(5)
        finally:
            self._writing = False

    async def _tick(self):
        """Probe when acks stay out, and let go of a client that is gone."""
        while True:
            await sleep_ms(self.tick_ms)
            if self._epoch < 0:
                continue
            # Counted in turns of this loop, so that a board that was busy for long does not take
            # its own silence for the client's.
            self._quiet += 1
            if self._quiet > 60:
                self._session(-1)
            elif self._probing or self._una != self._high:
                self._stall += 1
                if self._stall >= self._patience:
                    self._start_probe()
            self._wake.set()

    def _start_probe(self):
        self._stall = 0
        self._patience = min(2 * self._patience, 16)
        self._probing = True
        self._ask(_PROBE)

    # -- receiving

    async def _read(self):
        port = self._port
        while True:
            await port.wait()
            n = port.readinto(self._in)
            if n:
                self.rx_bytes += n
                self._feed(n)

    def _feed(self, n):
        src = self._in
        at = 0
        while at < n:
            stop = src.find(b"\n", at, n)
            cr = src.find(b"\r", at, n)
            if cr >= 0 and (stop < 0 or cr < stop):
                stop = cr
            self._collect(at, stop if stop >= 0 else n)
            if stop < 0:
                return
            at = stop + 1
            self._end_line()

    def _collect(self, a, b):
        n = b - a
        fill = self._fill
        if fill + n > len(self._line):
            if fill + n > LINE:
                self._over = True
                return
            grown = bytearray(LINE)
            grown[:fill] = self._line[:fill]
            self._line = grown
        self._line[fill : fill + n] = memoryview(self._in)[a:b]
        self._fill = fill + n
        if self._epoch < 0 and self._line[0] != 0x7E and n:
            self._echo(a, b)

    def _end_line(self):
        n = self._fill
        over = self._over
        self._fill = 0
        self._over = False
        at = self._line.rfind(b"~u", 0, n)
        if at >= 0 and not over:
            self._frame(at, n)
        elif self._epoch >= 0:
            # A client sends frames only: this one lost its beginning.
            if n:
                self._bad()
        elif over:
            self._port.write(TOO_LONG)
        elif n:
            self._port.write(b"\r\n")
            text = _edited(self._line, n)
            if text and self._line_fn:
                self._call(self._line_fn, text)
        if len(self._line) > _SMALL:
            self._line = bytearray(_SMALL)

    def _echo(self, a, b):
        if self._writing:
            return
        for i in range(a, b):
            c = self._in[i]
            if c == 8 or c == 0x7F:
                self._port.write(b"\b \b")
            elif c >= 32:
                self._port.write(memoryview(self._in)[i : i + 1])

    def _call(self, fn, *args):
        try:
            return fn(*args)
        except Exception as error:
            if self._log:
                self._log("link: a handler failed: %r" % (error,))
        return None

    def _bad(self):
        self.damaged += 1
        if not (self._naked or self._held):
            self._naked = True
            self._ask(_NAK)

    def _frame(self, a, b):
        """The line [a:b] begins with the marker."""
        line = self._line
        if b - a == 4 and line[a + 2] == 63:  # ? probe
            self._quiet = 0
            self._asked = line[a + 3]
            self._naked = False
            self._ask(_ANSWER)
            return
        if b - a < 14 or _hex(line, b - 6, 6) != _sum(memoryview(line)[a : b - 6]):
            if self._epoch >= 0:
                self._bad()
            return
        self.rx_frames += 1
        kind = line[a + 2]
        epoch = _hex(line, a + 4, 2)
        if kind == 89:  # Y sync
            self._session(epoch)
            self._due = 0
            self._ask(_SYNC)
            return
        if epoch != self._epoch:
            if self._epoch < 0:
                self._ask(_RESET)
            return
        self._quiet = 0
        self._acked(_hex(line, a + 6, 2))
        if kind == 78:  # N nak
            if not self._probing and self._una != self._high:
                self._start_probe()
        elif kind == 80:  # P answer to our probe: all that we sent before it is read or lost
            if self._probing and line[a + 3] == 48 + self._digit:
                self._probing = False
                self._stall = 0
                self._cur = self._una
                self._wake.set()
        elif kind == 66:  # B bye
            self._session(-1)
        elif kind in _PARTS and b - a >= _HEAD + 6:
            self._data(a, b - 6)

    def _acked(self, ack):
        d = (ack - self._una) & 255
        if d and d <= (self._high - self._una) & 255:
            if (self._cur - self._una) & 255 < d:
                self._cur = ack
            self._una = ack
            self._stall = 0
            self._patience = 2
            self._room.set()
            self._wake.set()

    def _data(self, a, b):
        line = self._line
        d = (_hex(line, a + 8, 2) - self._expect) & 255
        if d >= 128:  # doubled
            self._ask(_ACK)
            return
        if d:
            if self._held:
                self._ask(_HOLD)
            else:
                self._bad()
            return
        start = a + _HEAD
        stream = line[a + 3] - 48
        fn = self._fns[stream] if 0 <= stream < STREAMS else None
        if fn and b - start == _hex(line, a + 10, 2):
            part = memoryview(line)[start : unescape(line, start, b)]
            last = line[a + 2] in (76, 87)
            if self._call(fn, part, last) is False:
                self._held = True
                self._ask(_HOLD)
                return
        self._held = False
        self._naked = False
        self._expect = (self._expect + 1) & 255
        self._ask(_ACK)


def _edited(line, n):
    """The bytes of a typed line after its backspaces; other control characters are left out."""
    out = bytearray()
    for i in range(n):
        c = line[i]
        if c == 8 or c == 0x7F:
            while out and out[-1] & 0xC0 == 0x80:
                out = out[:-1]
            out = out[:-1]
        elif c >= 32:
            out.append(c)
    return bytes(out)
