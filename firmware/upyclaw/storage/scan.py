"""Reads JSON lines in pieces: which type a record has, and where its long values lie.

Owns: the streaming scanner and the walk over the lines of a data file. Must not write.

Rules by which a record's type is inferred when the idx does not tell (rebuilding an idx):
  a JSON array, or an object with role "tool"                     -> RESULT
  role "user"                                                     -> USER
  role "assistant" with a non-empty array tool_calls, or with a
  content array that holds an object of type "tool_use"           -> TOOL
  everything else, lines that are not JSON included               -> FINAL
Its backend format:
  key _claw_provider_state                                        -> 3 (responses)
  assistant whose content is an array                             -> 2 (anthropic)
  assistant with a non-empty array tool_calls                     -> 1 (openai)
  everything else (nothing in it tells)                           -> that of the record before,
  else 1
Only members of the outermost object count. A doubled key: the last one counts for role, any for
the others.
"""

from upyclaw.storage.codec import FINAL, RESULT, TOOL, USER

# Longest key or short value that matters ("_claw_provider_state").
_TEXT = 24


class Scan:
    """Scanner for one JSON line that comes in pieces. `reset()` before each line.

    After the last piece: `kind()`, `fmt(previous)`, `valid()` (brackets and strings are closed, no
    control characters, nothing behind; numbers and literals are not looked into), and `spans`:
    [start, end) of what compaction may take out: the members reasoning_content and reasoning of an
    object with one of their commas, the content values in the objects of an array.
    Heap: about 600 bytes.
    """

    def __init__(self):
        self._key = [b""] * 4
        self._at = [0] * 12  # per depth: comma before the member (-1: none), its start, its value
        self.reset()

    def reset(self):
        """Forget the line before."""
        self._stack = b""
        self._pos = 0
        self._in = False  # inside a string
        self._esc = False  # ... behind a backslash
        self._text = b""
        self._want = False  # a key comes next
        self._start = 0  # first byte of the line
        self._done = False
        self._bad = False
        self.role = b""
        self.calls = False
        self.array = False
        self.use = False
        self.state = False
        self.spans = []

    def valid(self):
        """True if the pieces so far are one closed JSON object or array."""
        return self._done and not self._bad

    def kind(self):
        """Record type by the rules above."""
        if self._start == 91 or self.role == b"tool":
            return RESULT
        if self.role == b"user":
            return USER
        if self.role == b"assistant" and (self.calls or self.use):
            return TOOL
        return FINAL

    def fmt(self, before):
        """Backend format by the rules above; `before` is that of the record before."""
        if self.state:
            return 3
        if self.role == b"assistant":
            if self.array:
                return 2
            if self.calls:
                return 1
        return before

    def feed(self, data):
        """Take the next piece (bytes)."""
        if data and min(data) < 0x20:
            self._control(data)
        i = 0
        n = len(data)
        while i < n:
            if self._in:
                i = self._string(data, i, n)
                continue
            c = data[i]
            if c == 34:
                self._in = True
                self._text = b""
                self._bad |= not self._stack
                if self._want:
                    self._member_start(self._pos + i)
            elif c == 123 or c == 91:
                self._open(c, self._pos + i)
            elif c == 125 or c == 93:
                self._close(c, self._pos + i)
            elif c == 44:
                self._comma(self._pos + i)
            elif c == 58:
                self._want = False
                d = len(self._stack)
                if d < 4:
                    self._at[d * 3 + 2] = self._pos + i + 1
            elif c != 32 and not self._stack:
                self._bad = True
            i += 1
        self._pos += n

    def _control(self, data):
        # Tab and CR are legal between tokens; that they are not within strings is not looked into.
        for b in data:
            if b < 0x20 and b != 9 and b != 13:
                self._bad = True

    def _string(self, data, i, n):
        if self._esc:
            self._esc = False
            return i + 1
        quote = data.find(b'"', i)
        stop = n if quote < 0 else quote
        slash = data.find(b"\\", i, stop)
        if slash >= 0:
            stop = slash
        if len(self._text) < _TEXT and len(self._stack) < 4:
            self._text += data[i : min(stop, i + _TEXT)]
        if slash >= 0:
            self._esc = True
            return slash + 1
        if quote < 0:
            return n
        self._in = False
        d = len(self._stack)
        if d < 4:
            if self._want:
                self._key[d] = self._text
                if d == 1 and self._text == b"_claw_provider_state":
                    self.state = True
            elif d == 1 and self._key[1] == b"role" and self._stack == b"{":
                self.role = self._text
            elif d == 3 and self._text == b"tool_use" and self._stack == b"{[{":
                if self._key[1] == b"content" and self._key[3] == b"type":
                    self.use = True
        return quote + 1

    def _member_start(self, pos):
        d = len(self._stack)
        if d < 4:
            self._at[d * 3 + 1] = pos

    def _open(self, c, pos):
        if self._done:
            self._bad = True
            return
        d = len(self._stack)
        if d == 0:
            self._start = c
        elif self._stack == b"{" and c == 91 and self._key[1] == b"content":
            self.array = True
        elif d == 2 and self._stack == b"{[" and c == 123 and self._key[1] == b"tool_calls":
            self.calls = True
        if d > 64:
            self._bad = True
        self._stack += bytes((c,))
        self._want = c == 123
        if d < 3:
            self._key[d + 1] = b""
            self._at[d * 3 + 3] = -1

    def _close(self, c, pos):
        if not self._stack or self._stack[-1] != c - 2:
            self._bad = True
            return
        if c == 125:
            self._member_end(pos, False)
        self._stack = self._stack[:-1]
        self._want = False
        if not self._stack:
            self._done = True

    def _comma(self, pos):
        if self._stack and self._stack[-1] == 123:
            eaten = self._member_end(pos, True)
            self._want = True
            d = len(self._stack)
            if d < 4:
                self._at[d * 3] = -1 if eaten else pos
                self._key[d] = b""
        elif not self._stack:
            self._bad = True

    def _member_end(self, pos, comma):
        # Returns True if the comma at `pos` goes with the member.
        d = len(self._stack)
        if d > 2:
            return False
        key = self._key[d]
        at = d * 3
        if d == 1:
            if key == b"reasoning_content" or key == b"reasoning":
                first = self._at[at] < 0
                eaten = first and comma
                start = self._at[at + 1] if first else self._at[at]
                self.spans.append((start, pos + 1 if eaten else pos))
                return eaten
        elif self._stack == b"[{" and key == b"content":
            self.spans.append((self._at[at + 2], pos))
        return False


def scan_record(f, offset, length, scan, buf):
    """Feed the record at `offset` (`length` bytes without LF) of file `f` to `scan`, reset
    before."""
    scan.reset()
    view = memoryview(buf)
    f.seek(offset)
    while length > 0:
        n = f.readinto(view[: min(length, len(buf))])
        if not n:
            break
        scan.feed(bytes(view[:n]))
        length -= n


def scan_lines(f, start, end, before, add, buf):
    """Walk the lines of data file `f` from `start` to `end`; `buf` is the read buffer.

    Calls `add(offset, length_with_LF, rtype, fmt)` for each complete line; `before` is the format
    of the record before. Returns (offset behind the last complete line, lines that are not JSON,
    True if what lies behind it is a whole JSON value that only lacks its LF).
    """
    scan = Scan()
    view = memoryview(buf)
    f.seek(start)
    line = pos = start
    bad = 0
    while pos < end:
        n = f.readinto(view[: min(end - pos, len(buf))])
        if not n:
            break
        at = 0
        while at < n:
            lf = buf.find(b"\n", at, n)
            stop = n if lf < 0 else lf
            scan.feed(bytes(view[at:stop]))
            if lf < 0:
                break
            before = scan.fmt(before)
            bad += not scan.valid()
            at = lf + 1
            add(line, pos + at - line, scan.kind(), before)
            line = pos + at
            scan.reset()
        pos += n
    return line, bad, scan.valid()
