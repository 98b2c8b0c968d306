"""What the link's engine keeps: figures, lines on their way, what waits.

Owns no behaviour; engine.py does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

State = Literal["closed", "syncing", "open"]


@dataclass
class Stats:
    """Figures since the port was opened."""

    rx_bytes: int = 0
    tx_bytes: int = 0
    rx_frames: int = 0
    tx_frames: int = 0
    resent: int = 0
    damaged: int = 0
    probes: int = 0

    def as_dict(self) -> dict[str, int]:
        """For `--json`."""
        return dict(vars(self))


@dataclass
class Sent:
    """A line on its way that the board may not have read yet."""

    size: int
    ack: int  # our ack number in it
    seq: int | None = None
    probe: int | None = None


@dataclass
class Outgoing:
    """A message, or a part of one, that waits to be cut into frames."""

    data: bytes
    last: bool
    at: int = 0


@dataclass
class Waiting:
    """What a frame without an ack carried."""

    stream: int
    payload: bytes
    first: bool
    last: bool


@dataclass
class Stream:
    """What waits on one stream."""

    queue: deque[Outgoing] = field(default_factory=deque)
    begun: bool = False  # a message is half sent


@dataclass
class Hooks:
    """What the engine calls. `part(stream, data, first, last)` in order, each part once."""

    part: Callable[[int, bytes, bool, bool], None]
    log: Callable[[bytes], None]
    opened: Callable[[int], None]  # the link version of the board
    lost: Callable[[str], None]  # "reset" or "dead"; the session is over
