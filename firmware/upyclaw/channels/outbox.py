"""Frames of the link: building them, and the four that wait for their ack.

Owns the layout, the check sum, the escapes and the board's sequence numbers (docs/link.md). Must
not know tasks, time or the port.
"""

import binascii

from upyclaw.compat import const

PAYLOAD = 237  # bytes of a message that one frame carries at most; a frame has at most 256

_SLOTS = const(4)  # frames that may wait; docs/link.md fixes this number
_FRAME = const(256)
_HEAD = const(12)  # ~u kind stream epoch(2) ack(2) seq(2) length(2)
_HEX = b"0123456789abcdef"

PARTS = (77, 70, 76, 87)  # M F L W; bit 0 of the index: first part, bit 1: last part


def get_hex(buf, at, n):
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


def put_hex(buf, at, n, value):
    """Write `value` as `n` hex digits at `at`."""
    for i in range(at + n - 1, at - 1, -1):
        buf[i] = _HEX[value & 15]
        value >>= 4


def check_sum(view):
    """The low 24 bits of the CRC-32."""
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


class Outbox:
    """Frames from the oldest without an ack to the newest built. Numbers count modulo 256."""

    def __init__(self):
        self._out = bytearray(_SLOTS * _FRAME)
        self._view = memoryview(self._out)
        self._lens = [0] * _SLOTS
        self._ctl = bytearray(15)
        self.clear()

    def clear(self):
        """A new session: all numbers are 0 again."""
        self._una = 0  # oldest without an ack
        self._cur = 0  # next to write
        self._high = 0  # next that was never written
        self._next = 0  # next to build

    def full(self):
        """No room for a frame until an ack comes."""
        return (self._next - self._una) & 255 >= _SLOTS

    def waiting(self):
        """A frame that was written has no ack yet."""
        return self._una != self._high

    def build(self, stream, epoch, src, at, first, last):
        """Put what fits of src[at:] into a frame; return how many bytes that is.

        `last`: the end of `src` is the end of the message.
        """
        slot = self._next % _SLOTS
        base = slot * _FRAME
        start = base + _HEAD
        out = self._out
        n = min(PAYLOAD, len(src) - at)
        size = n
        text = self._view[start : start + n]
        text[:] = src[at : at + n]
        # Look for what needs escaping with calls that loop in C; text rarely has any.
        if n and (
            min(text) < 32
            or out.find(b"~", start, start + n) >= 0
            or out.find(b"\x7f", start, start + n) >= 0
        ):
            n, size = self._escape(src, at, n, start)
        out[base] = 0x7E
        out[base + 1] = 0x75
        out[base + 2] = PARTS[first | (last and at + n == len(src)) << 1]
        out[base + 3] = 48 + stream
        put_hex(out, base + 4, 2, epoch)
        put_hex(out, base + 8, 2, self._next)
        put_hex(out, base + 10, 2, size)
        self._lens[slot] = _HEAD + size + 7
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

    def take(self, ack):
        """The next frame to write, with this ack, and True if it was written before; (None, False)
        if there is none."""
        if self._cur == self._next:
            return None, False
        slot = self._cur % _SLOTS
        base = slot * _FRAME
        end = base + self._lens[slot]
        again = self._cur != self._high
        self._cur = (self._cur + 1) & 255
        if not again:
            self._high = self._cur
        put_hex(self._out, base + 6, 2, ack)
        self._close(self._out, base, end)
        return self._view[base:end], again

    def control(self, kind, digit, epoch, ack):
        """The line of a frame without data; `kind` and `digit` are characters' codes."""
        ctl = self._ctl
        ctl[0:4] = bytes((0x7E, 0x75, kind, digit))
        put_hex(ctl, 4, 2, epoch)
        put_hex(ctl, 6, 2, ack)
        self._close(ctl, 0, 15)
        return ctl

    def _close(self, buf, a, b):
        put_hex(buf, b - 7, 6, check_sum(memoryview(buf)[a : b - 7]))
        buf[b - 1] = 10

    def acked(self, ack):
        """The other side expects `ack` next; True if that is news."""
        d = (ack - self._una) & 255
        if not d or d > (self._high - self._una) & 255:
            return False
        if (self._cur - self._una) & 255 < d:
            self._cur = ack
        self._una = ack
        return True

    def go_back(self):
        """Write everything without an ack again."""
        self._cur = self._una
