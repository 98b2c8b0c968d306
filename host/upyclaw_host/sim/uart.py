"""The UART of a board: how fast bytes travel, how many may wait, which are lost.

Owns no descriptor and no clock: time and fill are handed in, so that every rule can be tested
alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class UartStats:
    """Bytes since the board was switched on. `lost` did not fit into the input buffer."""

    received: int = 0
    lost: int = 0
    sent: int = 0
    unread: int = 0


class Pacer:
    """How many bytes may pass by now at `baud` (10 bits a byte); without `baud` any number."""

    # A wire saves up nothing: after a pause it is not faster for more than this time.
    _SLACK_S = 0.005

    def __init__(self, baud: int | None) -> None:
        self._rate = baud / 10 if baud else None
        self._credit = 0.0
        self._last: float | None = None

    def allowed(self, now: float, wanted: int) -> int:
        """Bytes of `wanted` that may pass at time `now` (s)."""
        if self._rate is None:
            return wanted
        if self._last is not None:
            gained = (now - self._last) * self._rate
            self._credit = min(self._credit + gained, max(1.0, self._rate * self._SLACK_S))
        self._last = now
        return min(wanted, int(self._credit))

    def passed(self, count: int) -> None:
        """`count` bytes did pass."""
        if self._rate is not None:
            self._credit -= count


class InputBuffer:
    """The receive buffer of `size` bytes: what finds it full is dropped and counted (B21)."""

    def __init__(self, size: int, stats: UartStats) -> None:
        self.size = size
        self.held = bytearray()
        self._stats = stats

    def receive(self, data: bytes, unread: int, keeps_up: bool = False) -> None:
        """Take what fits of `data`; `unread` bytes are further on, the program has yet to read.

        `keeps_up`: a program that does nothing but read takes all, however fast they come.
        """
        room = len(data) if keeps_up else max(0, self.size - unread - len(self.held))
        self.held += data[:room]
        self._stats.received += len(data)
        self._stats.lost += max(0, len(data) - room)
