"""Makes texts fit to be sent: whole UTF-8 characters, JSON inside a string, what shows nothing.

Works on pieces that are cut anywhere. Must not know records or messages.
"""

from upyclaw.compat import const, utf8_clean, utf8_len

_BAD = b"\xef\xbf\xbd"  # U+FFFD
NAME = const(64)  # characters of a tool's name, the limit of most servers
NO_WORDS = b"(no message)"  # a request without messages is refused

# What str.strip() takes off, ASCII aside: everything up to the blank counts as blank here.
BLANKS = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def is_blank(text):
    """True if str `text` shows nothing (B40)."""
    for i in range(len(text)):
        # A slice: MicroPython keeps what `text[i]` gives in the heap for good.
        ch = text[i : i + 1]
        if ch > " " and ch not in BLANKS:
            return False
    return True


def tool_name(text):
    """`text` (str) as a name every server takes: ASCII letters, digits, `_`, `-`, at most 64."""
    out = ""
    for ch in text[:NAME]:
        out += ch if ch in "_-" or "0" <= ch <= "9" or "a" <= ch.lower() <= "z" else "_"
    return out


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
