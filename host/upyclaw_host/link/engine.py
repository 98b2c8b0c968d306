"""The host's side of the link as a machine without a port and without a clock (docs/link.md).

Owns order, acks, resending and the rule that what the board has not read never exceeds its input
buffer. Bytes go in with `feed`, come out of `poll`; time is an argument. Must not know what the
messages mean.
"""

from __future__ import annotations

from collections import deque

from upyclaw_host.link import frames
from upyclaw_host.link.frames import Damaged, Frame
from upyclaw_host.link.records import Hooks, Outgoing, Sent, State, Stats, Stream, Waiting

STREAMS = 4
VERSION = 1
BOARD_WINDOW = 4  # frames that the board sends without an ack
BOARD_RX = 260  # until hello says otherwise

_MARGIN = 10  # bytes of the board's buffer that we leave alone (a typed key, an odd LF)
_PROBES = 40  # bytes kept for probes: they must go out when all other room is used up
_LONGEST_LINE = 4096

ACK_DELAY_S = 0.03  # longer than one frame takes at 115,200 baud
STALL_S = 0.4  # without an ack, before the first probe
LONGEST_PAUSE_S = 2.0  # between two probes
QUIET_S = 2.0  # without any sign of life, before a probe asks for one
DEAD_S = 15.0


class Engine:
    """One session after the other on one port. All sequence numbers here are unwrapped."""

    def __init__(self, hooks: Hooks) -> None:
        self.stats = Stats()
        self.state: State = "closed"
        self.partial = b""  # the unfinished line
        self.seen = bytearray()  # the last bytes that were no frames, for the diagnosis
        self._hooks = hooks
        self._clear(0, 0.0)

    def _clear(self, epoch: int, now: float) -> None:
        self._epoch = epoch
        self._limit = BOARD_RX - _MARGIN - _PROBES
        self._streams = [Stream() for _ in range(STREAMS)]
        self._turn = 0
        self._unacked: deque[Waiting] = deque()  # frames una .. next-1
        self._una = self._next = self._cur = self._high = 0
        self._expect = 0
        self._board_una = 0  # highest ack of ours among the lines that have landed
        self._flight: deque[Sent] = deque()
        self._ack_due: float | None = None
        self._ack_count = 0
        self._nak = self._naked = False
        self._answer: int | None = None
        self._probe: int | None = None
        self._digit = 0
        self._want_probe = False
        self._pause = STALL_S
        self._progress = self._heard = now
        self._probed = now
        self._sync: bytes | None = None

    # -- what the owner calls

    def open(self, epoch: int, now: float) -> None:
        """Begin a session (again); `epoch` 1..255 differs from that of the session before."""
        self._clear(epoch, now)
        self.state = "syncing"
        # The LF ends whatever stands on the board's line.
        self._sync = b"\n" + frames.control("Y", digit=VERSION, epoch=epoch)

    def close(self) -> bytes:
        """End the session; returns the last bytes to write."""
        last = frames.control("B", epoch=self._epoch) if self.state == "open" else b""
        self.stats.tx_bytes += len(last)
        self.state = "closed"
        return last

    def set_rx(self, size: int) -> None:
        """The board's input buffer holds `size` bytes."""
        self._limit = max(size - _MARGIN - _PROBES, 100)

    def send(self, stream: int, data: bytes, last: bool) -> None:
        """Queue a message or a part of it."""
        self._streams[stream].queue.append(Outgoing(data, last))

    def waiting(self, stream: int) -> int:
        """Bytes of `stream` that are not on their way yet."""
        return sum(len(item.data) - item.at for item in self._streams[stream].queue)

    def idle(self) -> bool:
        """True if the board has acknowledged everything."""
        return self._una == self._next and not any(s.queue for s in self._streams)

    @property
    def in_flight(self) -> int:
        """Bytes that may lie unread in the board's input buffer."""
        return sum(sent.size for sent in self._flight)

    # -- input

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes from the port."""
        self.stats.rx_bytes += len(data)
        lines = (self.partial + data).split(b"\n")
        self.partial = lines.pop()
        for line in lines:
            self._line(line.rstrip(b"\r"), now)
        if len(self.partial) > _LONGEST_LINE:
            self._text(self.partial)
            self.partial = b""

    def _text(self, text: bytes) -> None:
        self.seen += text + b"\n"
        del self.seen[:-2000]
        if text.strip():
            self._hooks.log(text)

    def _line(self, line: bytes, now: float) -> None:
        at = line.rfind(frames.MARK)
        if at < 0:
            self._text(line)
            return
        try:
            frame = frames.parse(line[at:])
        except Damaged:
            self._damaged()
            return
        if line[:at].strip():
            self._text(line[:at])
        self.stats.rx_frames += 1
        self._frame(frame, now)

    def _damaged(self) -> None:
        self.stats.damaged += 1
        if self.state == "open" and not self._naked:
            self._naked = self._nak = True

    def _frame(self, frame: Frame, now: float) -> None:
        if frame.kind == "R":
            if self.state == "open":
                self.state = "closed"
                self._hooks.lost("reset")
            elif self.state == "syncing":
                # It has just started, or had a session with somebody else: ask again at once.
                self._progress = now
            return
        if frame.kind == "Z":
            if self.state == "syncing" and frame.epoch == self._epoch:
                self.state = "open"
                self._sync = None
                self._heard = self._progress = now
                self._hooks.opened(frame.digit)
            return
        if self.state != "open":
            return
        if frame.kind == "?":
            self._heard = now
            self._answer = frame.digit
            self._naked = False
            return
        if frame.epoch != self._epoch:
            return
        self._heard = now
        if frame.kind == "D":
            self._data(frame, now)
        self._acked(frame.number, now)
        if frame.kind == "N":
            if self._probe is None and self._una != self._high:
                self._want_probe = True
            elif self._probe is not None:
                # A hold ended, or the answer is under way; ask at once.
                self._want_probe = True
        elif frame.kind in "PH":
            self._answered(frame, now)

    def _answered(self, frame: Frame, now: float) -> None:
        if self._probe is None or frame.digit != self._probe:
            return
        while self._flight and self._landed().probe != self._probe:
            pass
        self._pause = STALL_S
        if frame.kind == "P":
            # All that went out before the probe is read or lost: go back to the oldest unacked.
            self._probe = None
            self._cur = self._una
            self._progress = now
        else:
            self._pause = 1.0

    def _acked(self, number: int, now: float) -> None:
        count = (number - self._una) & 0xFF
        if not 0 < count <= self._high - self._una:
            return
        newest = self._una + count - 1
        while any(sent.seq is not None and sent.seq <= newest for sent in self._flight):
            self._landed()
        for _ in range(count):
            self._unacked.popleft()
        self._una += count
        self._cur = max(self._cur, self._una)
        self._progress = now
        self._pause = STALL_S

    def _data(self, frame: Frame, now: float) -> None:
        ahead = (frame.seq - self._expect) & 0xFF
        if ahead >= 0x80:
            self._ack_soon(now, at_once=True)
            return
        if ahead:
            self._damaged()
            return
        self._board_read(self._expect)
        self._expect += 1
        self._naked = False
        self._ack_soon(now)
        if 0 <= frame.digit < STREAMS:
            self._hooks.part(frame.digit, frame.payload, frame.first, frame.last)

    def _landed(self) -> Sent:
        """The oldest line on its way is off the line: read by the board, or lost."""
        sent = self._flight.popleft()
        self._board_una = max(self._board_una, sent.ack)
        return sent

    def _board_read(self, seq: int) -> None:
        """The board could send `seq` only after it had read an ack that opened its window.

        If no line that has landed carried such an ack, the oldest one on its way that does has
        landed too.
        """
        needed = seq - BOARD_WINDOW + 1
        if needed <= self._board_una or all(sent.ack < needed for sent in self._flight):
            return
        while self._landed().ack < needed:
            pass

    def _ack_soon(self, now: float, at_once: bool = False) -> None:
        self._ack_count += 1
        if at_once or self._ack_count >= BOARD_WINDOW // 2:
            self._ack_due = now
        elif self._ack_due is None:
            self._ack_due = now + ACK_DELAY_S

    # -- output

    def poll(self, now: float) -> bytes:
        """What to write now."""
        out = bytearray()
        if self.state == "syncing":
            if self._sync is not None and now >= self._progress:
                out += self._sync
                self._progress = now + self._pause
                self._pause = min(2 * self._pause, 1.6)
        elif self.state == "open":
            self._poll_open(out, now)
        self.stats.tx_bytes += len(out)
        return bytes(out)

    def _poll_open(self, out: bytearray, now: float) -> None:
        if now - self._heard > DEAD_S:
            self.state = "closed"
            self._hooks.lost("dead")
            return
        self._poll_control(out, now)
        self._poll_probe(out, now)
        while self._probe is None and self._emit_frame(out):
            self._progress = now

    def _poll_control(self, out: bytearray, now: float) -> None:
        due = self._ack_due is not None and now >= self._ack_due
        if not (due or self._nak or self._answer is not None):
            return
        if self.in_flight + frames.CONTROL_SIZE > self._limit:
            return
        kind, digit = "A", 0
        if self._answer is not None:
            kind, digit = "P", self._answer
        elif self._nak:
            kind = "N"
        self._put(out, frames.control(kind, digit=digit, epoch=self._epoch, number=self._expect))
        self._flight[-1].ack = self._expect
        self._answer = None
        self._nak = False
        self._acks_done()

    def _acks_done(self) -> None:
        self._ack_due = None
        self._ack_count = 0

    def _poll_probe(self, out: bytearray, now: float) -> None:
        if self._probe is not None:
            due = now - self._probed >= self._pause
        elif self._una != self._high:
            due = now - self._progress >= self._pause
        else:
            due = now - self._heard >= QUIET_S and now - self._probed >= QUIET_S
        if not (due or self._want_probe):
            return
        if self._probe is not None and not self._want_probe:
            self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        self._want_probe = False
        self._digit = (self._digit + 1) % 8
        self._probe = self._digit
        self._probed = now
        self.stats.probes += 1
        self._put(out, frames.probe(self._digit))
        self._flight[-1].probe = self._digit

    def _put(self, out: bytearray, line: bytes) -> None:
        out += line
        self.stats.tx_frames += 1
        self._flight.append(Sent(len(line), -1))

    def _emit_frame(self, out: bytearray) -> bool:
        """Write the next data frame if there is one and the board has room."""
        room = self._limit - self.in_flight
        if self._cur < self._next:
            frame = self._unacked[self._cur - self._una]
        else:
            built = self._build(room)
            if built is None:
                return False
            frame = built
        line = frames.data(
            frame.stream,
            frame.payload,
            epoch=self._epoch,
            number=self._expect,
            seq=self._cur,
            first=frame.first,
            last=frame.last,
        )
        if len(line) > room:
            return False
        self._put(out, line)
        self._flight[-1].seq = self._cur
        self._flight[-1].ack = self._expect
        self._acks_done()
        if self._cur < self._high:
            self.stats.resent += 1
        self._cur += 1
        self._high = max(self._high, self._cur)
        return True

    def _build(self, room: int) -> Waiting | None:
        """The next piece of a message, the streams in turn."""
        # Two frames share the window, so that one can be read while the other travels.
        size = min(frames.MAX_PAYLOAD, self._limit // 2 - frames.OVERHEAD)
        if self._next - self._una >= 64:
            return None
        for step in range(STREAMS):
            number = (self._turn + step) % STREAMS
            stream = self._streams[number]
            if not stream.queue:
                continue
            item = stream.queue[0]
            if room < min(size, len(item.data) - item.at) + frames.OVERHEAD:
                return None
            self._turn = number + 1
            count = frames.take_payload(item.data[item.at : item.at + size], size)
            payload = item.data[item.at : item.at + count]
            item.at += count
            ended = item.at == len(item.data)
            if ended:
                stream.queue.popleft()
            last = ended and item.last
            frame = Waiting(number, payload, not stream.begun, last)
            stream.begun = not last
            self._unacked.append(frame)
            self._next += 1
            return frame
        return None

    def deadline(self, now: float) -> float | None:
        """When `poll` has something to do at the latest, if nothing comes in before."""
        if self.state == "syncing":
            return self._progress
        if self.state != "open":
            return None
        times = [self._heard + DEAD_S + 0.01]
        if self._ack_due is not None:
            times.append(self._ack_due)
        if self._probe is not None:
            times.append(self._probed + self._pause)
        elif self._una != self._high:
            times.append(self._progress + self._pause)
        else:
            times.append(max(self._heard, self._probed) + QUIET_S)
        return min(times)
