"""The line that comes in, and what a person types at a bare terminal: echo, backspace.

Must not know frames; link.py decides what is a typed line.
"""

from upyclaw.compat import const

_LINE = const(1024)  # longest line that a person may type, bytes
_SMALL = const(256)  # line buffer while nobody types long lines; a frame fits

TOO_LONG = b"\r\nThis line is longer than 1,024 bytes and was refused: use `upyclaw chat`.\r\n"


class Line:
    """The line so far: `n` bytes in `buf`; `over` if it became longer than 1,024 bytes."""

    def __init__(self):
        self.buf = bytearray(_SMALL)
        self.clear()

    def clear(self):
        """Begin the next line."""
        self.n = 0
        self.over = False
        if len(self.buf) > _SMALL:
            self.buf = bytearray(_SMALL)

    def add(self, src, a, b):
        """Add src[a:b]; True if a person may have typed it: it does not begin like a frame."""
        n = self.n
        end = n + b - a
        if end > len(self.buf):
            if end > _LINE:
                self.over = True
                return False
            grown = bytearray(_LINE)
            grown[:n] = self.buf[:n]
            self.buf = grown
        self.buf[n:end] = memoryview(src)[a:b]
        self.n = end
        return b > a and self.buf[0] != 0x7E


def echo(port, buf, a, b):
    """Show the typed bytes buf[a:b]; what the terminal does not take is dropped."""
    for i in range(a, b):
        c = buf[i]
        if c == 8 or c == 0x7F:
            port.write(b"\b \b")
        elif c >= 32:
            port.write(memoryview(buf)[i : i + 1])


def edited(line, n):
    """The bytes of a typed line after its backspaces; other control characters are left out."""
    out = bytearray()
    for i in range(n):
        c = line[i]
        if c == 8 or c == 0x7F:
            while out and out[-1] & 0xC0 == 0x80:
                out = out[:-1]
            out = out[:-1]
        elif c >= 32:
            out.append(c)
    return bytes(out)
