"""Walks the JSON of one record in pieces, without holding it.

Owns: the strict reading of JSON tokens that come in chunks, and the positions and soundness of
strings. Knows nothing of messages. Must not build values: a record may be far larger than the RAM.

The buffer holds one chunk; inside strings the search for quotes, backslashes and control bytes
runs at C speed, so a plain record costs little more than its reading.
"""

from upyclaw.compat import MICROPYTHON, utf8_clean, utf8_len
from upyclaw.prompt.clean import is_blank

DEPTH = 64  # brackets inside each other; deeper counts as broken

_HEX = b"0123456789abcdefABCDEF"
_DIGITS = b"0123456789"


class Broken(Exception):
    """The record is not JSON."""


def number_ok(raw):
    """True if bytes `raw` are a number as JSON writes them."""
    i = 1 if raw[:1] == b"-" else 0
    n = len(raw)
    for part in (0, 1, 2):
        if part == 1:
            if raw[i : i + 1] != b".":
                continue
            i += 1
        elif part == 2:
            if raw[i : i + 1] not in (b"e", b"E"):
                continue
            i += 1
            if raw[i : i + 1] in (b"+", b"-"):
                i += 1
        start = i
        while i < n and raw[i] in _DIGITS:
            i += 1
        if i == start or (part == 0 and raw[start] == 0x30 and i > start + 1):
            return False
    return i == n


class Cursor:
    """Reads record after record of `session` through `buf` (bytearray of at least 64 bytes).

    After `string()`: `dirty` is True if the string holds bytes or escapes that must not be sent as
    they are, `blank` if it shows nothing, `text` its first raw bytes as asked for. `unclean`
    gathers `dirty` over all strings until it is set to False again.
    Every reading method raises Broken where the JSON ends or goes wrong.
    """

    def __init__(self, session, buf):
        self.session = session
        self.buf = buf
        self.view = memoryview(buf)
        self.record = -1
        self.dirty = self.blank = self.unclean = False
        self.text = b""
        self._chunks = iter((buf[:0],))
        self._base = self._n = self._pos = 0
        self._carry = b""
        self._high = False

    def open(self, i):
        """Go to the beginning of record `i`."""
        self.record = i
        self._chunks = iter(self.session.chunks(i, self.buf))
        self._base = self._n = self._pos = 0
        self.unclean = False

    def at(self):
        """Offset of the next byte in the record."""
        return self._base + self._pos

    def held(self, end):
        """True if the buffer holds the open record from its first byte to offset `end`."""
        return self._base == 0 and end <= self._n

    def _more(self):
        """Read the next chunk; False at the end of the record."""
        base = self._base + self._n
        for chunk in self._chunks:
            if len(chunk):
                self._base = base
                self._n = len(chunk)
                self._pos = 0
                return True
        return False

    def peek(self):
        """The next byte that is not blank space, not taken; -1 at the end of the record."""
        buf = self.buf
        while True:
            i = self._pos
            n = self._n
            while i < n:
                c = buf[i]
                if c > 32 or c not in b" \t\r\n":
                    self._pos = i
                    return c
                i += 1
            self._pos = i
            if not self._more():
                return -1

    def take(self, c):
        """Take the byte `c`, blank space before it aside."""
        if self.peek() != c:
            raise Broken()
        self._pos += 1

    def try_take(self, c):
        """Take the byte `c` if it comes next; True if it did."""
        if self.peek() != c:
            return False
        self._pos += 1
        return True

    def _byte(self):
        if self._pos >= self._n and not self._more():
            raise Broken()
        c = self.buf[self._pos]
        self._pos += 1
        return c

    # Strings

    def string(self, keep=0):
        """Take a string; returns (start, end) of its inside as offsets in the record.

        Of the inside at most about `keep` raw bytes are left in `text`; if it is longer, `text`
        has more than `keep` bytes, but not all.
        """
        self.take(34)
        self.dirty = self._high = False
        self.blank = True
        self.text = self._carry = b""
        start = self.at()
        buf = self.buf
        while True:
            if self._pos >= self._n and not self._more():
                raise Broken()
            pos = self._pos
            quote = buf.find(b'"', pos, self._n)
            stop = quote if quote >= 0 else self._n
            slash = buf.find(b"\\", pos, stop)
            if slash >= 0:
                stop = slash
            if stop > pos:
                self._span(pos, stop)
                if len(self.text) <= keep:
                    self.text += bytes(self.view[pos : min(stop, pos + keep + 1)])
            self._pos = stop
            if slash >= 0:
                self._escape(keep)
            elif quote >= 0:
                break
        end = self.at()
        self._pos += 1
        if self._carry or self._high:
            self.dirty = True
            self.blank = False
        self.unclean = self.unclean or self.dirty
        return start, end

    def _span(self, a, b):
        """Look at the bytes `a`..`b` of the buffer: string without quote and backslash."""
        if self._high:
            self._high = False
            self.dirty = True
        part = self.view[a:b]
        high = max(part)
        if min(part) < 32:
            raise Broken()
        if high < 0x80 and not self._carry:
            self.blank = self.blank and high <= 32
        else:
            self._utf8(a, b)

    def _utf8(self, a, b):
        buf = self.buf
        while self._carry and a < b:
            if buf[a] & 0xC0 != 0x80:
                self._sound(self._carry)
                self._carry = b""
                break
            self._carry += bytes((buf[a],))
            a += 1
            if len(self._carry) == utf8_len(self._carry[0]):
                self._sound(self._carry)
                self._carry = b""
        # A character that goes on in the next chunk waits for it.
        i = b - 1
        while i >= a and i > b - 4 and buf[i] & 0xC0 == 0x80:
            i -= 1
        if i >= a and i + utf8_len(buf[i]) > b:
            self._carry = bytes(self.view[i:b])
            b = i
        if a < b:
            self._sound(bytes(self.view[a:b]))

    def _sound(self, data):
        """Note whether whole characters `data` are UTF-8, and blank."""
        try:
            text = data.decode()
            if MICROPYTHON:  # its decoder lets wrong bytes through
                text = utf8_clean(data)
                if "\ufffd" in text and text.encode() != data:
                    self.dirty = True
        except UnicodeError:
            self.dirty = True
            self.blank = False
            return
        self.blank = self.blank and is_blank(text)

    def _escape(self, keep):
        """Take an escape, the cursor is on its backslash."""
        if self._carry:
            self._carry = b""
            self.dirty = True
        self._byte()
        c = self._byte()
        raw = bytes((92, c))
        high = self._high
        self._high = False
        if c == 0x75:
            for _ in range(4):
                c = self._byte()
                if c not in _HEX:
                    raise Broken()
                raw += bytes((c,))
            code = int(raw[2:].decode(), 16)
            low = 0xDC00 <= code < 0xE000
            self._high = 0xD800 <= code < 0xDC00
            self.dirty = self.dirty or low != high
            self.blank = self.blank and is_blank(chr(code))
        elif c in b'"\\/bfnrt':
            self.dirty = self.dirty or high
            self.blank = self.blank and c in b"fnrt"
        else:
            raise Broken()
        if len(self.text) <= keep:
            self.text += raw

    # Values

    def word(self):
        """`text` as str, "?" if it is not ASCII."""
        text = self.text
        return "?" if text and max(text) > 127 else text.decode()

    def key(self):
        """Take a member's name and its colon; returns the name's beginning as `word`."""
        self.string(24)
        word = self.word()
        self.take(58)
        return word

    def atom(self):
        """Take a number, true, false or null."""
        c = self.peek()
        raw = b""
        while c > 32 and c not in b",]}":
            if len(raw) > 40 or c in b'"{[:':
                raise Broken()
            raw += bytes((c,))
            self._pos += 1
            if self._pos >= self._n and not self._more():
                break
            c = self.buf[self._pos]
        if raw not in (b"null", b"true", b"false") and not number_ok(raw):
            raise Broken()

    def value(self):
        """Take any value; returns (start, end) of its text in the record."""
        self.peek()
        start = self.at()
        stack = b""
        while True:
            c = self.peek()
            if c == 34:
                self.string()
            elif c == 123 or c == 91:
                self._pos += 1
                if not self.try_take(c + 2):
                    if len(stack) >= DEPTH:
                        raise Broken()
                    stack += bytes((c + 2,))
                    if c == 123:
                        self.key()
                    continue
            else:
                self.atom()
            while stack:
                if self.try_take(44):
                    if stack[-1] == 125:
                        self.key()
                    break
                self.take(stack[-1])
                stack = stack[:-1]
            else:
                return start, self.at()
