"""The one place where MicroPython and CPython differ.

Owns: clock and epoch, ticks, JSON with joined surrogates, UTF-8 cleaning, a bounded asyncio queue,
heap figures. Everything else in the package is the same on both. Must not touch files or hardware.

Times are whole Unix seconds (1970) in files and in RAM, whatever the chip's own epoch is (B08).
"""

import asyncio
import gc
import json
import sys
import time

MICROPYTHON = sys.implementation.name == "micropython"

if MICROPYTHON:
    from micropython import const

    ticks_ms = time.ticks_ms
    ticks_us = time.ticks_us
    ticks_diff = time.ticks_diff
    ticks_add = time.ticks_add
    sleep_ms = asyncio.sleep_ms
else:

    def const(value):  # type: ignore[misc]
        """Return `value`; MicroPython's compiler folds it into the code."""
        return value

    def ticks_ms():  # type: ignore[misc]
        """Milliseconds of a clock that only goes forward; compare with `ticks_diff` alone."""
        return time.monotonic_ns() // 1000000  # type: ignore[attr-defined]

    def ticks_us():  # type: ignore[misc]
        """Microseconds of the same kind of clock."""
        return time.monotonic_ns() // 1000  # type: ignore[attr-defined]

    def ticks_diff(a, b):  # type: ignore[misc]
        """Milliseconds from tick `b` to tick `a`."""
        return a - b

    def ticks_add(a, delta):  # type: ignore[misc]
        """Tick `a` moved by `delta` milliseconds."""
        return a + delta

    _MS = float("1e-3")  # CPython only; no float literal for the chip to meet

    def sleep_ms(ms):
        """Awaitable that sleeps `ms` milliseconds."""
        return asyncio.sleep(ms * _MS)


# Seconds between 1970 and the epoch of this runtime: 0, or 946,684,800 where time starts in 2000.
_EPOCH = 946684800 if time.gmtime(0)[0] == 2000 else 0
# A clock that shows less than 2024-01-01 was never set.
_SANE = const(1704067200)

_clock_shift = 0


def unix_time():
    """Unix seconds now, or 0 while the clock was never set."""
    now = int(time.time()) + _EPOCH + _clock_shift
    return now if now >= _SANE else 0


def set_unix_time(seconds):
    """Set the clock to `seconds` (Unix). Before 2024 it was never set: ignored."""
    global _clock_shift
    if seconds >= _SANE:
        _clock_shift = int(seconds) - int(time.time()) - _EPOCH


def civil_time(seconds):
    """(year, month, day, hour, minute, second, weekday) of Unix `seconds`; Monday is 0."""
    return tuple(time.gmtime(seconds - _EPOCH)[:7])


def collect():
    """Collect the garbage on the board. The PC's own collector needs no help, and is slow."""
    if MICROPYTHON:
        gc.collect()


def mem_free():
    """Free bytes of the heap, 0 where the runtime does not tell."""
    return gc.mem_free() if hasattr(gc, "mem_free") else 0


def unload(*names):
    """Forget modules that are seldom used: their code leaves the heap as soon as nothing runs it
    or holds on to it; a later import reads it again from flash. On the PC they stay."""
    for name in names:
        if MICROPYTHON and name in sys.modules:
            del sys.modules[name]
            dot = name.rfind(".")
            parent = sys.modules.get(name[:dot])
            if hasattr(parent, name[dot + 1 :]):
                delattr(parent, name[dot + 1 :])


def empty(*names):
    """`unload` for modules of which nothing runs and that nobody holds on to: they are emptied.

    The collector takes old words on the C stack for pointers; one that points to a function would
    keep its module and all that this one imports.
    """
    for name in names:
        if MICROPYTHON and name in sys.modules:
            sys.modules[name].__dict__.clear()
            unload(name)


def join_surrogates(text):
    """Join escaped surrogate pairs into one character; a lone half becomes U+FFFD (B06).

    MicroPython's `json.loads` leaves `\\ud83d\\ude00` as two halves, and encoding them writes
    bytes that are not UTF-8.
    """
    # As bytes: MicroPython keeps each character that `for ch in text` ever gave in the heap.
    data = bytes(text, "utf-8", "surrogatepass")
    at = data.find(b"\xed")
    if at < 0:
        return text
    while at >= 0:
        second = data[at + 1]
        if second >= 0xA0:
            end = at + 3
            char = b"\xef\xbf\xbd"
            if second < 0xB0 and data[end : end + 1] == b"\xed" and data[end + 1] >= 0xB0:
                c = 0x10000 + ((second & 15) << 16) + ((data[at + 2] & 63) << 10)
                c += (data[end + 1] & 15) << 6 | data[end + 2] & 63
                char = bytes(
                    (0xF0 | c >> 18, 0x80 | c >> 12 & 63, 0x80 | c >> 6 & 63, 0x80 | c & 63)
                )
                end += 3
            data = data[:at] + char + data[end:]
        at = data.find(b"\xed", at + 3)
    return data.decode()


def _join(value):
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        for i in range(len(value)):
            value[i] = _join(value[i])
        return value
    if isinstance(value, dict):
        for key in list(value):
            value[key] = _join(value[key])
    return value


def json_loads(text):
    """Parse JSON (str or bytes); every string in it is valid Unicode then. Raises ValueError."""
    value = json.loads(text)
    if isinstance(text, (bytes, bytearray)) and b"\\u" not in text and b"\xed" not in text:
        # No surrogates can be in it; walking over every character would cost more than parsing.
        return value
    return _join(value)


def utf8_len(first):
    """Bytes of the UTF-8 sequence that starts with byte `first`; 0 if none can start with it."""
    if first < 0x80:
        return 1
    if 0xC2 <= first < 0xE0:
        return 2
    if 0xE0 <= first < 0xF0:
        return 3
    if 0xF0 <= first < 0xF5:
        return 4
    return 0


def _sequence_ok(data, i, n, end):
    if i + n > end:
        return False
    for k in range(i + 1, i + n):
        if data[k] & 0xC0 != 0x80:
            return False
    first = data[i]
    second = data[i + 1] if n > 1 else 0
    if first == 0xE0:
        return second >= 0xA0
    if first == 0xED:
        return second < 0xA0
    if first == 0xF0:
        return second >= 0x90
    if first == 0xF4:
        return second < 0x90
    return True


def _lax_utf8(data):
    """True if `data` holds a lead byte after which MicroPython's decoder lets wrong bytes through:
    overlong forms, surrogates, code points above U+10FFFF."""
    if not data or max(data) < 0xC0:
        return False
    for lead in (b"\xc0", b"\xc1", b"\xe0", b"\xed", b"\xf0"):
        if lead in data:
            return True
    return max(data) > 0xF3


def utf8_clean(data):
    """Return `data` (bytes-like) as str; each byte that is not UTF-8 becomes U+FFFD (B05).

    A surrogate pair in two three-byte sequences is joined (B06).
    `bytes.decode(errors=)` is ignored on MicroPython, hence by hand.
    """
    if not isinstance(data, bytes):
        data = bytes(data)
    if not MICROPYTHON or not _lax_utf8(data):
        try:
            return data.decode()
        except UnicodeError:
            pass
    out = []
    start = i = 0
    end = len(data)
    while i < end:
        n = utf8_len(data[i])
        if n and _sequence_ok(data, i, n, end):
            i += n
            continue
        if i > start:
            out.append(bytes(data[start:i]).decode())
        if n == 3 and i + 2 < end and data[i] == 0xED and data[i + 1] & 0xE0 == 0xA0:
            # Half of a surrogate pair in three bytes, as older boards wrote it.
            out.append(chr(0xD000 | (data[i + 1] & 0x3F) << 6 | data[i + 2] & 0x3F))
            i += 3
        else:
            out.append("\ufffd")
            i += 1
        start = i
    if i > start:
        out.append(bytes(data[start:i]).decode())
    return join_surrogates("".join(out))


def utf8_cut(data, limit):
    """Largest n <= `limit` such that `data[:n]` (UTF-8 bytes-like) ends between characters."""
    n = len(data)
    if n <= limit:
        return n
    n = limit
    while n > 0 and data[n] & 0xC0 == 0x80:
        n -= 1
    return n


class QueueEmpty(Exception):
    """`get_nowait` found nothing."""


class QueueFull(Exception):
    """`put_nowait` found no room."""


class Queue:
    """A bounded FIFO for asyncio with the API of `asyncio.Queue` (MicroPython has none, B61)."""

    def __init__(self, maxsize=0):
        self.maxsize = maxsize
        self._items = []
        self._put = asyncio.Event()
        self._got = asyncio.Event()

    def qsize(self):
        """Number of items that wait."""
        return len(self._items)

    def empty(self):
        """True if nothing waits."""
        return not self._items

    def full(self):
        """True if a `put` would have to wait."""
        return 0 < self.maxsize <= len(self._items)

    def put_nowait(self, item):
        """Add `item`; raises QueueFull."""
        if self.full():
            raise QueueFull()
        self._items.append(item)
        self._put.set()

    def get_nowait(self):
        """Take the oldest item; raises QueueEmpty."""
        if not self._items:
            raise QueueEmpty()
        item = self._items.pop(0)
        self._got.set()
        return item

    async def put(self, item):
        """Add `item`, waiting for room."""
        while self.full():
            self._got.clear()
            await self._got.wait()
        self.put_nowait(item)

    async def get(self):
        """Take the oldest item, waiting for one."""
        while not self._items:
            self._put.clear()
            await self._put.wait()
        return self.get_nowait()
