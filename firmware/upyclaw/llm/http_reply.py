"""One HTTP/1.x reply from a connection: head, then the body in pieces.

Owns the framing (B19): Content-Length, chunks, a body that ends with the connection, replies
without one. Must not know what the body means. Never holds more than its buffer.
"""

from upyclaw.compat import ticks_diff, ticks_ms
from upyclaw.llm.errors import LLMError

_HEAD_LIMIT = 16384  # bytes of a header line, and of all together
_BODY_LIMIT = 4194304  # bytes of a body; a stream that never ends has to end somewhere
_TOTAL = 900000  # ms for a whole reply, however lively it is


def _broken():
    return LLMError("server", "The model server's reply is not HTTP.")


class Reply:
    """Reads from `conn` through `buf` (bytearray, at least 256 bytes). `limit`: longest silence
    in ms. After `head`: `status`, `retry_after` (s or None), `location`, `whole` (the body is
    one JSON value, which says nothing before its end)."""

    def __init__(self, conn, buf, limit):
        self.status = 0
        self.retry_after = None
        self.location = ""
        self.whole = False
        self._conn = conn
        self._buf = buf
        self._view = memoryview(buf)
        self._limit = limit
        self._at = 0
        self._end = 0
        self._left = 0  # of the body or the chunk; -1: until the connection ends
        self._chunked = False
        self._first = True
        self._total = 0
        self._began = ticks_ms()

    def cut(self):
        """LLMError for a reply whose end is missing."""
        return LLMError("cut", "The model's answer was cut off: the server closed the connection.")

    async def head(self):
        """Read the head. Raises LLMError, OSError."""
        while self.status < 200:
            # 100 Continue and its like come before the reply proper.
            await self._one_head()
        if self._chunked:
            self._left = 0
        elif self.status == 204 or self.status == 304:
            self._left = 0

    async def _one_head(self):
        words = (await self._line()).split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise _broken()
        self.status = int(words[1])
        self._left = -1
        budget = _HEAD_LIMIT
        while True:
            line = await self._line()
            if not line:
                return
            budget -= len(line)
            if budget < 0:
                raise LLMError("server", "The model server sent too long a head.")
            self._header(line)

    def _header(self, line):
        name, _, value = line.partition(b":")
        name = name.lower()
        value = value.strip()
        if name == b"content-length" and value.isdigit():
            self._left = int(value)
        elif name == b"transfer-encoding":
            self._chunked = b"chunked" in value.lower()
        elif name == b"content-type":
            self.whole = b"/json" in value.lower()
        elif name == b"retry-after" and value.isdigit():
            self.retry_after = int(value)
        elif name == b"location":
            self.location = bytes(value[:80]).decode()

    async def part(self):
        """The next bytes of the body, valid until the next call; None at its end."""
        if self._left == 0:
            if not self._chunked or not await self._next_chunk():
                return None
        if self._at == self._end and not await self._fill():
            if self._left < 0:
                return None
            raise self.cut()
        n = self._end - self._at
        if 0 <= self._left < n:
            n = self._left
        part = self._view[self._at : self._at + n]
        self._at += n
        if self._left > 0:
            self._left -= n
        self._total += n
        if self._total > _BODY_LIMIT or ticks_diff(ticks_ms(), self._began) > _TOTAL:
            raise LLMError("server", "The model server's answer does not end; it was given up.")
        return part

    async def _next_chunk(self):
        if not self._first:
            await self._line()
        self._first = False
        size = (await self._line()).partition(b";")[0].strip()
        try:
            self._left = int(size.decode(), 16)
        except ValueError:
            raise _broken()
        if self._left > 0:
            return True
        # Trailers may follow; nobody waits for them.
        self._chunked = False
        self._left = 0
        return False

    async def _fill(self):
        """Read more; False at the end of the connection. What was read must be used up."""
        self._at = 0
        self._end = await self._conn.read(self._view, self._limit)
        return self._end > 0

    async def _line(self):
        """A line without its end; of one longer than the buffer only the beginning."""
        line = b""
        size = 0
        while size < _HEAD_LIMIT:
            if self._at == self._end and not await self._fill():
                raise self.cut()
            stop = self._buf.find(b"\n", self._at, self._end)
            end = self._end if stop < 0 else stop
            if len(line) < 256:
                line += bytes(self._view[self._at : min(end, self._at + 256)])
            size += end - self._at
            self._at = end
            if stop >= 0:
                self._at = stop + 1
                return line.rstrip()
        raise _broken()
