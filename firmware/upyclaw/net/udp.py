"""One question and one answer over UDP, without ever blocking the loop.

Owns the socket and the clock of a question. Must not know what is asked (dns.py, clock.py).
"""

import socket

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms

_STEP = 20  # ms between two looks at the socket


async def ask(data, host, port, accept, timeout_ms=2000, tries=3):
    """Send `data` to `host` (dotted address) and return accept(answer), the first that is not
    None; None if none came within `tries` times `timeout_ms`. Raises OSError: no network."""
    address = socket.getaddrinfo(host, port)[0][-1]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        for _ in range(tries):
            sock.sendto(data, address)
            start = ticks_ms()
            while ticks_diff(ticks_ms(), start) < timeout_ms:
                try:
                    answer = sock.recvfrom(512)[0]
                except OSError:
                    # Nothing there, or somebody's "port unreachable": both may pass.
                    await sleep_ms(_STEP)
                    continue
                found = accept(answer)
                if found is not None:
                    return found
    finally:
        sock.close()
    return None
