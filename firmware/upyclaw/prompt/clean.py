"""Makes bytes fit to be sent: the inside of a JSON string that is not sound, or JSON as a string.

Owns: the repair of escapes, control bytes and UTF-8 in a string's raw inside (B05, B06). Works on
pieces; what could go on in the next piece is held back (at most 12 bytes).
"""

from upyclaw.compat import utf8_clean, utf8_len

_BAD = b"\xef\xbf\xbd"  # U+FFFD
_LONGEST = 12  # an escaped surrogate pair


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


def whole_characters(pieces):
    """Yield `pieces` (bytes-like, cut anywhere) as clean UTF-8 bytes, whole characters each."""
    held = b""
    for piece in pieces:
        data = held + bytes(piece)
        end = i = len(data)
        while i > 0 and i > end - 3 and data[i - 1] & 0xC0 == 0x80:
            i -= 1
        held = b""
        if i > 0 and i - 1 + utf8_len(data[i - 1]) > end:
            held = data[i - 1 :]
            data = data[: i - 1]
        if data:
            yield data if max(data) < 0x80 else utf8_clean(data).encode()
    if held:
        yield _BAD


def json_as_string(pieces):
    """Yield the inside of a JSON string for `pieces` of JSON text (object arguments, B14)."""
    for data in whole_characters(pieces):
        data = data.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        if min(data) < 32:
            # Between tokens white space is as good as a blank.
            data = bytes([32 if c < 32 else c for c in data])
        yield data


def text_pieces(text):
    """Yield a section's text as clean UTF-8 bytes, whole characters each.

    `text` is str, bytes-like, or a callable that gives an iterable of str or bytes-like.
    """
    if isinstance(text, str):
        return whole_characters(text[i : i + 256].encode() for i in range(0, len(text), 256))
    if isinstance(text, (bytes, bytearray, memoryview)):
        return whole_characters((text,))
    return whole_characters(p.encode() if isinstance(p, str) else p for p in text())
