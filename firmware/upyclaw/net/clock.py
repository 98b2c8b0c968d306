"""The time from the network: one SNTP question (RFC 4330), without blocking.

Owns the setting of the chip's clock, which certificates are checked against.
"""

import os
import time

from upyclaw.compat import civil_time, set_unix_time, unix_time
from upyclaw.net.udp import ask

_1900 = 2208988800  # seconds from 1900 to 1970
_ERA = 4294967296  # NTP's seconds begin anew in 2036


def set_clock(seconds):
    """Set the board's clock and the chip's own to `seconds` (Unix)."""
    try:
        from machine import RTC

        t = civil_time(seconds)
        RTC().datetime((t[0], t[1], t[2], t[6], t[3], t[4], t[5], 0))
    except (ImportError, OSError):
        # No such clock: the shift that compat keeps will do.
        pass
    set_unix_time(seconds)


def ready_for_tls():
    """Hand a time that came from the PC on to the chip, whose TLS reads its own clock. False if
    nobody has told the time yet."""
    now = unix_time()
    if now and time.gmtime()[0] < 2024:
        set_clock(now)
    return now != 0


def read_time(answer, nonce):
    """Unix seconds in an NTP answer; None if it is no answer to the question with `nonce`."""
    if len(answer) < 48 or answer[0] & 7 != 4 or answer[24:32] != nonce:
        return None
    if not 0 < answer[1] < 16:
        # A server that has no time itself, or asks us to stop.
        return None
    seconds = 0
    for byte in answer[40:44]:
        seconds = seconds * 256 + byte
    if seconds < _ERA // 2:
        seconds += _ERA
    return seconds - _1900


async def fetch(server):
    """Set the clock from `server` ("name" or "name:port"); True if that worked."""
    from upyclaw.net.dns import resolve

    name, _, port = server.partition(":")
    # What a client puts there comes back: nobody else can make the answer up.
    nonce = os.urandom(8)
    question = b"\x23" + bytes(39) + nonce
    try:
        host = await resolve(name)
        seconds = await ask(
            question, host, int(port or "123"), lambda data: read_time(data, nonce)
        )
    except (OSError, ValueError):
        return False
    if seconds:
        set_clock(seconds)
    return bool(seconds)
