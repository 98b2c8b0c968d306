"""One TCP connection, with TLS or without, that never blocks the loop.

Owns the socket. The socket is looked at every few milliseconds instead of through asyncio's
streams: each wait has a limit and can be given up, with TLS too, and no task hangs on a dead peer
(B19). MicroPython only. Must not know HTTP.
"""

import select
import socket

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms

TIMED_OUT = 110  # errno of a limit that was reached
GIVEN_UP = 125  # errno after `abort`

_STEP = 15  # ms between two looks at the socket
_TLS_END = -0x7280  # mbedTLS: the peer closed without saying so


class Conn:
    """A connected socket. All limits are the longest silence, in milliseconds."""

    def __init__(self, sock, raw):
        self._sock = sock
        self._raw = raw
        self._aborted = False

    def abort(self):
        """Whoever waits on this connection gets OSError(GIVEN_UP) soon."""
        self._aborted = True

    async def _pause(self, start, limit):
        if self._aborted:
            raise OSError(GIVEN_UP)
        if ticks_diff(ticks_ms(), start) > limit:
            raise OSError(TIMED_OUT)
        await sleep_ms(_STEP)

    async def read(self, view, limit):
        """Read what is there into `view`, waiting for it; the number of bytes, 0 at the end.
        Raises OSError; ValueError if the peer's certificate is refused."""
        start = ticks_ms()
        while True:
            try:
                n = self._sock.readinto(view)
            except OSError as error:
                if error.args[0] == _TLS_END:
                    return 0
                raise
            if n is not None:
                return n
            await self._pause(start, limit)

    async def write(self, data, limit):
        """Write all of `data`. Raises as `read` does."""
        view = memoryview(data)
        start = ticks_ms()
        while len(view):
            n = self._sock.write(view)
            if n:
                view = view[n:]
                start = ticks_ms()
                # A fast peer must not keep the loop from everyone else.
                await sleep_ms(0)
            else:
                await self._pause(start, limit)

    def close(self):
        """Close it; never raises."""
        for sock in (self._sock, self._raw):
            try:
                sock.close()
            except OSError:
                pass


def _trust(context, path):
    """Load the roots in the file `path`, DER, one behind the other. Raises OSError, ValueError."""
    with open(path, "rb") as f:
        head = f.read(4)
        while len(head) == 4:
            # A sequence of more than 255 bytes, as every certificate is: 30 82, then its length.
            if head[:2] != b"\x30\x82":
                raise ValueError("the roots are not in DER form")
            context.load_verify_locations(cadata=head + f.read(head[2] * 256 + head[3]))
            head = f.read(4)


async def connect(address, port, limit, host=None, ca=None):
    """Conn to the dotted `address`. With `ca` (path of a file of roots) by TLS: the peer's
    certificate must come from them, be in date and be made out for `host`. Raises OSError,
    ValueError."""
    sock = socket.socket()
    try:
        sock.setblocking(False)
        try:
            sock.connect(socket.getaddrinfo(address, port)[0][-1])
        except OSError as error:
            # In progress: 115 on Linux, 119 on the chip, 36 on macOS.
            if error.args[0] not in (115, 119, 36):
                raise
        poller = select.poll()
        poller.register(sock, select.POLLOUT)
        start = ticks_ms()
        while not poller.poll(0):
            if ticks_diff(ticks_ms(), start) > limit:
                raise OSError(TIMED_OUT)
            await sleep_ms(_STEP)
        if ca is None:
            return Conn(sock, sock)
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_mode = ssl.CERT_REQUIRED  # type: ignore[attr-defined]
        _trust(context, ca)
        tls = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        return Conn(tls, sock)
    except BaseException:
        sock.close()
        raise
