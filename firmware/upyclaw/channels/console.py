"""What a person types at a bare terminal: echo, backspace, too long lines.

Must not know frames; link.py decides what is a typed line.
"""

TOO_LONG = b"\r\nThis line is longer than 1,024 bytes and was refused: use `upyclaw chat`.\r\n"


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
