"""Names to IPv4 addresses. MicroPython's `getaddrinfo` stops the whole board while it waits; this
asks the name server itself (RFC 1035), and for `NAME.local` everybody on the network (RFC 6762).

Keeps nothing: who needs an address often keeps it.
"""

import os

from upyclaw.net.udp import ask


def _is_address(name):
    parts = name.split(".")
    return len(parts) == 4 and all(p.isdigit() and int(p) < 256 for p in parts)


def _server():
    """Address of the network's name server, None if it is not known."""
    try:
        import network

        server = network.WLAN(network.STA_IF).ifconfig()[3]
    except (ImportError, OSError):
        return None
    return None if server == "0.0.0.0" else server


def _question(name, ident):
    out = ident + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    for part in name.split("."):
        label = part.encode()
        if not 0 < len(label) < 64:
            raise OSError(-2)
        out += bytes((len(label),)) + label
    return out + b"\x00\x00\x01\x00\x01"


def _skip_name(data, at):
    while data[at]:
        if data[at] >= 0xC0:
            return at + 2
        at += data[at] + 1
    return at + 1


def read_answer(data, ident):
    """The first IPv4 address in the DNS message `data`; "" if it says that there is none; None if
    it is no answer to the question `ident` (two bytes)."""
    if len(data) < 12 or data[:2] != ident or not data[2] & 0x80:
        return None
    try:
        at = 12
        for _ in range(data[4] * 256 + data[5]):
            at = _skip_name(data, at) + 4
        for _ in range(data[6] * 256 + data[7]):
            at = _skip_name(data, at)
            size = data[at + 8] * 256 + data[at + 9]
            if data[at : at + 2] == b"\x00\x01" and size == 4:
                at += 10
                return "{}.{}.{}.{}".format(data[at], data[at + 1], data[at + 2], data[at + 3])
            at += 10 + size
    except IndexError:
        return None
    return ""


async def resolve(name, server=None, port=53):
    """The IPv4 address of `name`, as text. `server`: name server, by default the network's.

    Raises OSError: there is no such name, or nobody answers.
    """
    if _is_address(name):
        return name
    if name == "localhost":
        return "127.0.0.1"
    if name.endswith(".local"):
        server, port = "224.0.0.251", 5353
    server = server or _server()
    if not server:
        # No name server is known; the runtime may know one all the same.
        import socket

        return _text(socket.getaddrinfo(name, 0, socket.AF_INET)[0][-1])
    ident = os.urandom(2)
    found = await ask(_question(name, ident), server, port, lambda data: read_answer(data, ident))
    if not found:
        raise OSError(-2)
    return found


def _text(address):
    if isinstance(address, tuple):
        return address[0]
    # The unix port gives a packed sockaddr_in.
    return "{}.{}.{}.{}".format(*address[4:8])
