"""The serial line of a simulated board: moves bytes as a UART would.

Owns the two pseudo terminals: the outer one is the port that people open, the inner one is
MicroPython's standard input and output. Knows nothing of the process but what the line shows.
"""

from __future__ import annotations

import re
import time

from upyclaw_host.sim.gate import Gate, Seen
from upyclaw_host.sim.pty import Pty
from upyclaw_host.sim.uart import InputBuffer, Pacer, UartStats

_BARE_LF = re.compile(rb"(?<!\r)\n")
_FRIENDLY_BANNER = re.compile(rb"MicroPython [^\n]*\n[^\n]*\n>>> $")
_RAW_MARK = b"raw REPL; CTRL-B to exit\r\n"
_FRIENDLY_MARK = b">>> "


class SerialLine:
    """One line for the life of a board, over all its resets. For the board's thread alone."""

    # Output that waits for a reader (bytes); MicroPython pauses at this, as it would for the baud
    # rate.
    BACKLOG = 65536
    # A reader that takes nothing for this long (s) is none: from then on output is dropped.
    DEAF_S = 1.0
    # How often (s) to look again where no descriptor tells.
    TICK_S = 0.002

    def __init__(self, rx_buffer: int, baud: int | None) -> None:
        self.stats = UartStats()
        self.inner = Pty()
        self.outer: Pty | None = Pty()
        self._buffer = InputBuffer(rx_buffer, self.stats)
        self._in_pace, self._out_pace = Pacer(baud), Pacer(baud)
        self._paced = baud is not None
        self._gate = Gate()
        self._output = bytearray()
        self._moved = time.monotonic()
        self._deaf = False
        self._last_sent = b""
        self._tail = b""
        self._entering_raw = False
        self._swallowed = b""
        self.raw_repl = False

    def close(self) -> None:
        """Close both sides; a process on the line gets a hang-up."""
        self.inner.close()
        self.unplug()

    def unplug(self) -> None:
        """Close the port."""
        if self.outer is not None:
            self.outer.close()
            self.outer = None

    def plug(self) -> None:
        """Open a new port if there is none."""
        if self.outer is None:
            self._output.clear()
            self.outer = Pty()

    def boot(self, *, keep_input: bool, to_raw: bool, hold_s: float) -> None:
        """MicroPython is about to start: with or without the input that waits, into which REPL.

        Input stays in the buffer until the prompt is there, at most for `hold_s`.
        """
        if not keep_input:
            self._buffer.held.clear()
        self.inner.discard()
        self.inner.reset()
        self._gate = Gate()
        if hold_s:
            self._gate.hold(time.monotonic() + hold_s)
        self._entering_raw, self.raw_repl = to_raw, False
        self._swallowed = self._tail = b""

    # -- from MicroPython to the port ----------------------------------------------------------

    def emit(self, data: bytes) -> None:
        """Queue `data` for the port, with the line ends a board sends."""
        if not data:
            return
        joined = self._last_sent == b"\r" and data[:1] == b"\n"
        self._last_sent = data[-1:]
        if joined:
            self._output += b"\n"
            data = data[1:]
        self._output += _BARE_LF.sub(b"\r\n", data)

    def drain(self) -> None:
        """Take what MicroPython has written."""
        while True:
            data = self.inner.read()
            if not data:
                return
            self._gate.output(data)
            self._watch_mode(data)
            self.emit(self._to_raw(data) if self._entering_raw else data)

    def _watch_mode(self, data: bytes) -> None:
        text = self._tail + data
        self._tail = text[-len(_RAW_MARK) :]
        raw, friendly = text.rfind(_RAW_MARK), text.rfind(_FRIENDLY_MARK)
        if raw != friendly:
            self.raw_repl = raw > friendly

    def _to_raw(self, data: bytes) -> bytes:
        """After a soft reset from the raw REPL: replace the friendly prompt by a raw one."""
        self._swallowed += data
        banner = _FRIENDLY_BANNER.search(self._swallowed)
        if banner is not None:
            before = self._swallowed[: banner.start()]
            self._swallowed = b""
            self.inner.write(b"\x01")
            return before
        if self._swallowed.endswith(_RAW_MARK + b">"):
            self._entering_raw = False
            return _RAW_MARK + b">"
        return b""

    def pass_output(self, now: float) -> None:
        """Send what waits, as far as the port and the baud rate allow."""
        if self.outer is None:
            self._output.clear()
        if self.outer is None or not self._output:
            self._moved = now
            return
        count = self._out_pace.allowed(now, min(len(self._output), 4096))
        sent = self.outer.write(bytes(self._output[:count])) if count else 0
        if sent:
            self._out_pace.passed(sent)
            self.stats.sent += sent
            del self._output[:sent]
            self._moved, self._deaf = now, False
        elif now > self._moved + self.DEAF_S:
            # Nobody reads; a UART sends all the same.
            self._deaf = True
        if self._deaf:
            self.stats.unread += len(self._output)
            self._output.clear()

    @property
    def congested(self) -> bool:
        """True while MicroPython's output has to wait."""
        return len(self._output) >= self.BACKLOG

    # -- from the port to MicroPython ----------------------------------------------------------

    def receive(self, now: float, powered: bool) -> None:
        """Take what has arrived at the port into the input buffer."""
        if self.outer is None:
            return
        wanted = self._in_pace.allowed(now, 4096)
        data = self.outer.read(wanted) if wanted else b""
        self._in_pace.passed(len(data))
        if data and powered:
            # While the raw REPL collects code a chip is faster than its line. On a busy PC it
            # would seem slower, and tools that send code without waiting would fail.
            collects = self.raw_repl and self.inner.at_prompt()
            self._buffer.receive(data, self.inner.unread(), collects)

    def pass_input(self, now: float) -> bool:
        """Hand on what MicroPython may have; True: interrupt its code, then call again."""
        while not self._entering_raw:
            seen = Seen(now, self.inner.at_prompt(), self.inner.unread(), self.raw_repl)
            data, interrupt = self._gate.take(self._buffer.held, seen)
            if data:
                self.inner.write(data)
            if interrupt:
                return True
            if not data:
                break
        return False

    def waits(self) -> tuple[list[int], list[int], float | None]:
        """Descriptors to read, to write, and a time-out (s), for `select`."""
        reads: list[int] = []
        writes: list[int] = []
        timeout: float | None = None
        if not self.congested:
            reads.append(self.inner.master)
        if self.outer is not None and not self._paced:
            reads.append(self.outer.master)
            if self._output:
                writes.append(self.outer.master)
                timeout = 0.1
        if self._paced or self._buffer.held or self._gate.holding or self._entering_raw:
            timeout = self.TICK_S
        return reads, writes, timeout
