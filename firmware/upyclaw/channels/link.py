"""The link: several streams of messages over one serial line that a person can also read.

Owns the session, the order of frames, resending and flow control as docs/link.md lays them down;
the board's side. Must not touch hardware (serial.py does) nor know what the messages mean.

What the host has sent and we have not read never exceeds the input buffer of the chip, because
neither side sends anything again before the other has said that all earlier bytes are off the line
(probe and answer).
"""

import asyncio

from upyclaw.channels.console import TOO_LONG, Line, echo, edited
from upyclaw.channels.outbox import PARTS, Outbox, check_sum, get_hex, unescape
from upyclaw.compat import const, sleep_ms, ticks_diff, ticks_ms

VERSION = 1  # of the frames; the sync frame carries it
RX = 260  # bytes of the chip's input buffer, told to the host in `hello`

_STREAMS = const(4)
_QUIET = const(60)  # ticks without a sign of life after which the client is gone

# what the pump has to send beside data, highest first
_RESET = const(1)
_SYNC = const(2)
_ANSWER = const(4)
_HOLD = const(8)
_NAK = const(16)
_ACK = const(32)
_PROBE = const(64)


class LinkDown(Exception):
    """There is no session with the PC, or it ended while something was being sent."""


class Link:
    """The board's end. `port`: see serial.py. `log(str)`: told about handlers that failed.

    `attached`: a client said hello and is alive; set by whoever handles `hello`, cleared here.
    `up`: a session exists; its client may not have said hello yet.
    """

    tick_ms = 250

    def __init__(self, port, log=None):
        self.attached = self.up = False
        self.rx_bytes = self.tx_bytes = self.rx_frames = self.tx_frames = 0
        self.resent = self.damaged = 0
        self._port = port
        self._log = log
        self._fns = [None] * _STREAMS
        self._states = []
        self._line_fn = None
        self._in = bytearray(64)
        self._line = Line()
        self._box = Outbox()
        self._wake = asyncio.Event()  # for the pump
        self._room = asyncio.Event()  # for senders
        self._writing = False
        self._epoch = -1
        self._age = 0  # sessions so far
        self._digit = 0  # of our last probe
        self._asked = 48  # digit of the host's last probe, as a character
        self._due = _RESET
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
                while self._box.full():
                    await self._wait_room(age)
                self._check(age)
                first = not self._begun[stream]
                at += self._box.build(stream, self._epoch, view, at, first, end)
                self._begun[stream] = not (end and at == len(view))
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
        self._box.clear()
        self._expect = 0  # sequence number of the host's next frame
        self._naked = self._held = self._probing = False
        self._quiet = self._stall = 0
        self._patience = 2  # ticks without progress before we probe
        self._age += 1
        self._owner = [None] * _STREAMS  # task whose message is on its way
        self._begun = [False] * _STREAMS

    def _session(self, epoch):
        was = self.up
        self._epoch = epoch
        self.up = epoch >= 0
        self.attached = False
        self._clear()
        self._room.set()
        for fn in self._states:
            if was:
                fn(False)
            if self.up:
                fn(True)

    def _ask(self, what):
        self._due |= what
        self._wake.set()

    def _check(self, age):
        if self._epoch < 0 or age != self._age:
            raise LinkDown()

    async def _wait_room(self, age):
        self._check(age)
        self._room.clear()
        await self._room.wait()

    # -- sending

    async def _pump(self):
        """The only writer of frames."""
        while True:
            line = None
            if self._due:
                line = self._control()
            elif not self._probing:
                line, again = self._box.take(self._expect)
                if line:
                    self._due &= ~_ACK
                    if again:
                        self.resent += 1
                    else:
                        self.tx_frames += 1
            if line:
                await self._write(line)
            else:
                self._wake.clear()
                await self._wake.wait()

    def _control(self):
        """The most urgent frame without data; it settles what it says."""
        due = self._due
        digit = 48
        if due & _RESET or not self.up:
            self._due = 0
            return self._box.control(82, digit, 0, 0)  # R
        if due & _SYNC:
            kind = 90  # Z
            digit += VERSION
            settled = _SYNC | _ACK | _NAK
        elif due & (_ANSWER | _HOLD):
            kind = 72 if self._held else 80  # H P
            digit = self._asked if due & _ANSWER else 57  # 9: nobody asked
            settled = _ANSWER | _HOLD | _NAK | _ACK
        elif due & _NAK:
            kind = 78  # N
            settled = _NAK | _ACK
        elif due & _ACK:
            kind = 65  # A
            settled = _ACK
        else:
            self._due = 0
            self._digit = (self._digit + 1) & 7
            return b"~u?%d\n" % self._digit
        self._due &= ~settled
        return self._box.control(kind, digit, self._epoch, self._expect)

    async def _write(self, line):
        view = memoryview(line)
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
            if self._quiet > _QUIET:
                self._session(-1)
            elif self._probing or self._box.waiting():
                self._stall += 1
                if self._stall >= self._patience:
                    self._probe()

    def _probe(self):
        self._stall = 0
        self._patience = min(2 * self._patience, 8)
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
            end = stop if stop >= 0 else n
            typed = self._line.add(src, at, end) and self._epoch < 0
            if typed and not self._writing:
                echo(self._port, src, at, end)
            if stop < 0:
                return
            at = stop + 1
            self._end_line()

    def _end_line(self):
        line = self._line
        try:
            at = line.buf.rfind(b"~u", 0, line.n)
            if at >= 0 and not line.over:
                self._frame(at, line.n)
            elif self._epoch >= 0:
                # A client sends frames only: this one lost its beginning.
                if line.n:
                    self._bad()
            elif line.over:
                self._port.write(TOO_LONG)
            elif line.n:
                self._port.write(b"\r\n")
                text = edited(line.buf, line.n)
                if text and self._line_fn:
                    self._call(self._line_fn, text)
        finally:
            line.clear()

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
        line = self._line.buf
        if b - a == 4 and line[a + 2] == 63:  # ? probe
            self._quiet = 0
            self._asked = line[a + 3]
            self._naked = False
            self._ask(_ANSWER)
            return
        if b - a < 14 or get_hex(line, b - 6, 6) != check_sum(memoryview(line)[a : b - 6]):
            if self._epoch >= 0:
                self._bad()
            return
        self.rx_frames += 1
        kind = line[a + 2]
        epoch = get_hex(line, a + 4, 2)
        if kind == 89:  # Y sync
            self._session(epoch)
            self._due = 0
            self._ask(_SYNC)
        elif epoch == self._epoch:
            self._quiet = 0
            if self._box.acked(get_hex(line, a + 6, 2)):
                self._stall = 0
                self._patience = 2
                self._room.set()
                self._wake.set()
            self._act(kind, a, b)
        elif self._epoch < 0:
            self._ask(_RESET)

    def _act(self, kind, a, b):
        if kind in PARTS:
            if b - a >= 18:
                self._data(a, b - 6)
        elif kind == 78:  # N nak
            if not self._probing and self._box.waiting():
                self._probe()
        elif kind == 80:  # P answer to our probe: all that we sent before it is read or lost
            if self._probing and self._line.buf[a + 3] == 48 + self._digit:
                self._probing = False
                self._stall = 0
                self._box.go_back()
                self._wake.set()
        elif kind == 66:  # B bye
            self._session(-1)

    def _data(self, a, b):
        line = self._line.buf
        d = (get_hex(line, a + 8, 2) - self._expect) & 255
        if d >= 128:  # doubled
            self._ask(_ACK)
            return
        if d:
            if self._held:
                self._ask(_HOLD)
            else:
                self._bad()
            return
        start = a + 12
        stream = line[a + 3] - 48
        fn = self._fns[stream] if 0 <= stream < _STREAMS else None
        if fn and b - start == get_hex(line, a + 10, 2):
            part = memoryview(line)[start : unescape(line, start, b)]
            if self._call(fn, part, line[a + 2] in (76, 87)) is False:
                self._held = True
                self._ask(_HOLD)
                return
        self._held = False
        self._naked = False
        self._expect = (self._expect + 1) & 255
        self._ask(_ACK)
