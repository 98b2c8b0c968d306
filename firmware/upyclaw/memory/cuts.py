"""Small things that everything needs: walking over a text, one clean line, a cut, a hash.

Owns: nothing but these. Kept apart because the rest of text.py is seldom needed with them.

A text is walked over as bytes (`points`) or in slices (`letters`). MicroPython keeps each
character that `for ch in text`, `text[i]` or `chr` ever gave in the heap for good: 18 bytes, and
the table of them doubles when it is full. A thousand Chinese characters would be half of what is
free.
"""

from binascii import crc32


def points(data):
    """Yield the code points of `data`, whole UTF-8 as bytes."""
    c = left = 0
    for b in data:
        if b < 0x80:
            yield b
        elif b >= 0xC0:
            left = 1 if b < 0xE0 else 2 if b < 0xF0 else 3
            c = b & (0x3F >> left)
        else:
            c = c << 6 | b & 0x3F
            left -= 1
            if not left:
                yield c


def width(c):
    """Bytes of code point `c` in UTF-8."""
    return 1 if c < 0x80 else 2 if c < 0x800 else 3 if c < 0x10000 else 4


def put(out, c):
    """Append code point `c` to the bytearray `out`."""
    if c < 0x80:
        out.append(c)
        return
    n = width(c) - 1
    out.append((0xF80 >> n & 0xFF) | c >> 6 * n)
    while n:
        n -= 1
        out.append(0x80 | c >> 6 * n & 0x3F)


def letters(text):
    """Yield the characters of a short `text`."""
    for i in range(len(text)):
        yield text[i : i + 1]


def clean(text):
    """`text` in one line: every control character becomes a blank, the ends are trimmed."""
    data = text.encode()
    if data and (min(data) < 0x20 or 0x7F in data or b"\xc2" in data or b"\xe2\x80" in data):
        out = bytearray()
        for c in points(data):
            put(out, 32 if c < 32 or 0x7F <= c < 0xA0 or c == 0x2028 or c == 0x2029 else c)
        text = bytes(out).decode()
    return text.strip(" ")


def cut(text, limit):
    """The longest beginning of `text` with at most `limit` bytes of UTF-8, whole characters."""
    data = text.encode()
    if len(data) <= limit:
        return text
    n = limit
    while n and data[n] & 0xC0 == 0x80:
        n -= 1
    return data[:n].decode()


def hash30(text):
    """A 30-bit hash of `text` (str or bytes): a small integer on a 32-bit chip."""
    return crc32(text if isinstance(text, bytes) else text.encode()) & 0x3FFFFFFF
