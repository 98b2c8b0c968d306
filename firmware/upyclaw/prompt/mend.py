"""Mends the raw inside of a JSON string: bytes that are not UTF-8, halves of pairs, a cut end.

Owns the rules of B05 and B06: a bad byte or a lone half becomes U+FFFD, both halves of a pair one
character. Imported when a record needs it. Works on pieces; what could go on in the next piece
is held back (at most 12 bytes).
"""

from upyclaw.compat import const, utf8_clean, utf8_len

_BAD = b"\xef\xbf\xbd"  # U+FFFD
_LONGEST = const(12)  # an escaped surrogate pair


def _code(data, i):
    """Code of the `\\uXXXX` at `i`, -1 if it is none."""
    part = bytes(data[i : i + 6])
    return int(part[2:].decode(), 16) if len(part) == 6 and part[:2] == b"\\u" else -1


def _unit(data, i):
    """The piece of string at `i`: (bytes to send, bytes used); 12 bytes follow, or all."""
    c = data[i]
    if c == 0x5C:
        return _escape(data, i)
    if c < 0x80:
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
    size = 6 if bytes(data[i + 1 : i + 2]) == b"u" else 2
    if i + size > len(data):
        # The string was cut here.
        return b"", len(data) - i
    code = _code(data, i)
    if 0xD800 <= code < 0xDC00 and 0xDC00 <= _code(data, i + 6) < 0xE000:
        size = 12
    elif 0xD800 <= code < 0xE000:
        return _BAD, 6
    return bytes(data[i : i + size]), size


def clean_string(pieces):
    """Yield sound raw bytes of a string for `pieces` of its raw inside, cut anywhere.

    The pieces together are the inside of a JSON string, or its beginning.
    """
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
