"""One line of text is one frame: building and reading them (docs/link.md, "Frames").

Owns the layout, the escapes and the check sum. Knows nothing of order, time or ports.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

MARK = b"~u"
OVERHEAD = 19  # bytes of a data frame beside its payload: head 12, check sum 6, LF
CONTROL_SIZE = 15
MAX_PAYLOAD = 237  # so that a frame has at most 256 bytes

# first part, last part -> kind
_PARTS = {(False, False): b"M", (True, False): b"F", (False, True): b"L", (True, True): b"W"}
_KINDS = {kind: flags for flags, kind in _PARTS.items()}

_HEAD = re.compile(
    rb"~u(?:\?(?P<probe>[0-7])|(?P<kind>[A-Z])(?P<digit>[0-9])(?P<epoch>[0-9a-f]{2})"
    rb"(?P<ack>[0-9a-f]{2})(?P<rest>.*?)(?P<sum>[0-9a-f]{6}))\Z",
    re.DOTALL,
)
_SPECIAL = re.compile(rb"[\x00-\x1f~\x7f]")
_ESCAPE = re.compile(rb"~(.)", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """A valid frame. `number` is the ack field: the next sequence number the sender expects."""

    kind: str  # one of A B H N P R Y Z for control, D for data, ? for a probe
    digit: int = 0  # stream of data, digit of a probe or answer, version of a sync
    epoch: int = 0
    number: int = 0
    seq: int = 0
    first: bool = False
    last: bool = False
    payload: bytes = b""


class Damaged(ValueError):
    """A line with the marker that is no valid frame."""


def escape(data: bytes) -> bytes:
    """No byte below 0x20, no 0x7f and no `~` but as the start of an escape."""
    return _SPECIAL.sub(lambda found: bytes((0x7E, found.group()[0] ^ 0x40)), data)


def unescape(data: bytes) -> bytes:
    """The opposite of `escape`."""
    return _ESCAPE.sub(lambda found: bytes((found.group(1)[0] ^ 0x40,)), data)


def take_payload(data: bytes, room: int) -> int:
    """How many bytes of `data` fit into `room` bytes of escaped payload."""
    piece = data[:room]
    size = len(escape(piece))
    if size <= room:
        return len(piece)
    used = 0
    for count, byte in enumerate(piece):
        used += 2 if byte < 0x20 or byte in (0x7E, 0x7F) else 1
        if used > room:
            return count
    return len(piece)


def _closed(body: bytes) -> bytes:
    return body + b"%06x\n" % (zlib.crc32(body) & 0xFFFFFF)


def control(kind: str, *, digit: int = 0, epoch: int = 0, number: int = 0) -> bytes:
    """A frame without a message: `kind` one of A B H N P R Y Z."""
    return _closed(b"~u%c%d%02x%02x" % (kind.encode(), digit, epoch, number & 0xFF))


def probe(digit: int) -> bytes:
    """The question how far the other side has read."""
    return b"~u?%d\n" % digit


def data(
    stream: int, payload: bytes, *, epoch: int, number: int, seq: int, first: bool, last: bool
) -> bytes:
    """A frame with (a part of) a message."""
    raw = escape(payload)
    if len(raw) > MAX_PAYLOAD:
        raise ValueError(f"a payload of {len(raw)} bytes is longer than {MAX_PAYLOAD}")
    head = b"~u%c%d%02x%02x%02x%02x" % (
        _PARTS[first, last],
        stream,
        epoch,
        number & 0xFF,
        seq & 0xFF,
        len(raw),
    )
    return _closed(head + raw)


def parse(line: bytes) -> Frame:
    """Read one line that begins with the marker, without its LF. Raises Damaged."""
    found = _HEAD.match(line)
    if not found:
        raise Damaged("no frame")
    if found["probe"]:
        return Frame("?", digit=int(found["probe"]))
    if int(found["sum"], 16) != zlib.crc32(line[:-6]) & 0xFFFFFF:
        raise Damaged("check sum")
    digit, epoch, number = int(found["digit"]), int(found["epoch"], 16), int(found["ack"], 16)
    kind, rest = found["kind"], found["rest"]
    flags = _KINDS.get(kind)
    if flags is None:
        return Frame(kind.decode(), digit, epoch, number)
    try:
        seq, size = int(rest[:2], 16), int(rest[2:4], 16)
    except ValueError:
        raise Damaged("head") from None
    if len(rest) != 4 + size:
        raise Damaged("length")
    return Frame("D", digit, epoch, number, seq, *flags, unescape(rest[4:]))
