"""When a received byte may go on to MicroPython, and when Ctrl-C is a signal.

On the chip an interrupt turns byte 3 into KeyboardInterrupt while code runs, and all other bytes
wait in one buffer for whoever reads next. On the PC the REPL throws waiting input away whenever it
changes between prompt and running code; this gate holds bytes back around those moments, so that
nothing is lost that the chip would keep. Owns no descriptor and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

INTERRUPT = 3
# Bytes after which the REPL may start to run code; in the raw REPL only the second.
RETURN = 0x0D
END_OF_CODE = 4
# Raw REPL, friendly REPL, its continuation line.
_PROMPTS = (b"\x04>", b">>> ", b"... ")


@dataclass(frozen=True)
class Seen:
    """What is known of MicroPython at time `now` (s); `unread` bytes it has not taken yet."""

    now: float
    prompt: bool
    unread: int
    raw: bool = False


class Gate:
    """Feed it with `Seen`; it says what to pass on from the front of the buffer."""

    # After a signal the program unwinds to the prompt, which throws away what waits by then.
    UNWIND_S = 0.3
    # Time the REPL gets to start a line of code, and a line of code to end.
    SETTLE_S = 0.02
    RUN_S = 0.05

    def __init__(self) -> None:
        self._unwind_until = 0.0
        self._line_end: float | None = None
        self._hold_until = 0.0
        self._tail = b""

    def output(self, data: bytes) -> None:
        """MicroPython wrote `data`: a prompt among it says that a line has been dealt with."""
        self._tail = (self._tail + data)[-4:]

    def hold(self, until: float) -> None:
        """Pass nothing before the prompt is there, at most until time `until` (s)."""
        self._hold_until = until

    @property
    def holding(self) -> bool:
        """True while time alone may open the gate."""
        return self._unwind_until > 0 or self._line_end is not None or self._hold_until > 0

    def _settle(self, seen: Seen) -> bool:
        """Move the inner state on; True if the gate is open."""
        if self._unwind_until:
            if not seen.prompt and seen.now < self._unwind_until:
                return False
            self._unwind_until = 0.0
        if self._hold_until:
            if not seen.prompt and seen.now < self._hold_until:
                return False
            self._hold_until = 0.0
        if self._line_end is not None:
            limit = self.SETTLE_S if seen.prompt else self.RUN_S
            prompted = seen.prompt and self._tail.endswith(_PROMPTS)
            if seen.unread or (not prompted and seen.now < self._line_end + limit):
                return False
            self._line_end = None
        return True

    def take(self, held: bytearray, seen: Seen) -> tuple[bytes, bool]:
        """Remove from `held` what may go on now; returns (bytes to write, whether to signal).

        The signal belongs after the bytes.
        """
        if not held:
            self._settle(seen)
            return b"", False
        if held[0] == INTERRUPT and not seen.prompt and self._line_end is not None:
            # The line that was just started is to be stopped.
            self._line_end = None
        if not self._settle(seen):
            return b"", False
        end = len(held)
        if seen.prompt:
            for i, byte in enumerate(held):
                if byte == END_OF_CODE or (byte == RETURN and not seen.raw):
                    end = i + 1
                    self._line_end = seen.now
                    self._tail = b""
                    break
            signal = False
        else:
            at = held.find(INTERRUPT)
            signal = at >= 0
            if signal:
                end = at
                self._unwind_until = seen.now + self.UNWIND_S
        data = bytes(held[:end])
        del held[: end + 1 if signal else end]
        return data, signal
