"""Small things that everything needs: one clean line, a cut on a character, a hash.

Owns: nothing but these. Kept apart because the rest of text.py is seldom needed with them.
"""

from binascii import crc32


def clean(text):
    """`text` in one line: every control character becomes a blank, the ends are trimmed."""
    for ch in text:
        c = ord(ch)
        if c < 0x20 or 0x7F <= c < 0xA0 or c == 0x2028 or c == 0x2029:
            break
    else:
        return text.strip(" ")
    out = []
    for ch in text:
        c = ord(ch)
        out.append(" " if c < 0x20 or 0x7F <= c < 0xA0 or c == 0x2028 or c == 0x2029 else ch)
    return "".join(out).strip(" ")


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
