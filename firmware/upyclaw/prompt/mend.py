"""Mends the raw inside of a JSON string that is unsound: escapes, control bytes, UTF-8 (B05 B06).

Imported when a record needs it. Works on pieces; what could go on in the next piece is held back
(at most 12 bytes).
"""

from upyclaw.compat import const, utf8_clean, utf8_len

_BAD = b"\xef\xbf\xbd"  # U+FFFD
_LONGEST = const(12)  # an escaped surrogate pair


def _hex4(data, i):
    """Code of four hex digits at `i`, -1 if they are not four hex digits."""
    digits = bytes(data[i : i + 4])
    for c in digits:
        if c not in b"0123456789abcdefABCDEF":
            return -1
    return int(digits.decode(), 16) if len(digits) == 4 else -1


def _unit(data, i):
    """The piece of string at `i`: (bytes to send, bytes used); 12 bytes follow, or all."""
    c = data[i]
    if c == 0x5C:
        return _escape(data, i)
    if c < 0x80:
        if c == 0x22 or c < 0x20:
            return (b'\\"' if c == 0x22 else b"\\n" if c == 10 else b"\\u%04x" % c), 1
        return bytes((c,)), 1
    pair = bytes(data[i : i + 6])
    if len(pair) == 6 and pair[0] == pair[3] == 0xED:
        # The halves of a surrogate pair, each written as three bytes.
        high = (pair[1] & 63) << 6 | pair[2] & 63
        low = (pair[4] & 63) << 6 | pair[5] & 63
        if high >> 10 == 2 and low >> 10 == 3:
            code = 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
            return chr(code).encode(), 6
    n = utf8_len(c)
    text = utf8_clean(data[i : i + n]) if n else "\ufffd"
    if n and i + n <= len(data) and text.encode() == bytes(data[i : i + n]):
        return text.encode(), n
    return _BAD, 1


def _escape(data, i):
    c = data[i + 1] if i + 1 < len(data) else 0
    if c == 0x75:
        code = _hex4(data, i + 2)
        if code < 0:
            return b"\\\\", 1
        if 0xD800 <= code < 0xDC00:
            if bytes(data[i + 6 : i + 8]) == b"\\u" and 0xDC00 <= _hex4(data, i + 8) < 0xE000:
                return bytes(data[i : i + 12]), 12
            return _BAD, 6
        if 0xDC00 <= code < 0xE000:
            return _BAD, 6
        return bytes(data[i : i + 6]), 6
    if c and c in b'"\\/bfnrt':
        return bytes(data[i : i + 2]), 2
    return b"\\\\", 1


def clean_string(pieces):
    """Yield sound raw bytes of a string for `pieces` of its raw inside, cut anywhere."""
    held = b""
    for piece in pieces:
        held += bytes(piece)
        out = bytearray()
        i = 0
        while len(held) - i >= _LONGEST:
            data, used = _unit(held, i)
            out += data
            i += used
        held = held[i:]
        if out:
            yield out
    out = bytearray()
    i = 0
    while i < len(held):
        data, used = _unit(held, i)
        out += data
        i += used
    if out:
        yield out
