"""Who may come in: tokens, lock-out, Host and Origin.

Owns the token file: the owner's token and the guests', a line each, made at first start. Must not
know HTTP beyond the text of these headers. Time limits are in milliseconds of `ticks`.
"""

import binascii
import hashlib
import os

from upyclaw.compat import const, ticks_diff, ticks_ms
from upyclaw.storage import files

TOKENS = "/data/web_tokens"
OWNER = 1
GUEST = 2

_FREE = const(5)  # wrong tokens before an address has to wait
_WAIT_MS = const(30000)  # doubled with each further one
_MOST_MS = const(900000)
_PEERS = const(8)  # addresses remembered


class Locked(Exception):
    """Too many wrong tokens; `args[0]`: seconds to wait."""


class Guard:
    """Checks tokens of the file `path`; writes it if it is missing or damaged."""

    def __init__(self, path=TOKENS):
        self.owner = self.guest = ""
        self._peers = {}  # address -> [wrong tokens, tick of the last]
        try:
            with open(path) as f:
                words = f.read(100).split()
        except (OSError, UnicodeError):
            words = []
        if len(words) != 2 or len(words[0]) != 20 or len(words[1]) != 20:
            words = [binascii.hexlify(os.urandom(10)).decode() for _ in (OWNER, GUEST)]
            try:
                files.make_dirs(path[: path.rfind("/")])
                files.write_file(path, "\n".join(words).encode())
            except (files.StorageError, OSError):
                pass  # a full flash: they hold until the next start
        self.owner, self.guest = words

    def check(self, token, peer):
        """OWNER, GUEST, or 0 for a wrong token. Raises Locked while `peer` has to wait."""
        known = self._peers.get(peer)
        now = ticks_ms()
        if known and known[0] >= _FREE:
            wait = min(_WAIT_MS << min(known[0] - _FREE, 5), _MOST_MS)
            left = wait - ticks_diff(now, known[1])
            if 0 < left <= wait:
                raise Locked(left // 1000 + 1)
        # Both are compared, whatever the first says.
        who = _same(token, self.owner) * OWNER | _same(token, self.guest) * GUEST
        if who:
            # A guest's token must not buy new tries at the owner's.
            if who == OWNER:
                self._peers.pop(peer, None)
            return who
        if known is None:
            if len(self._peers) >= _PEERS:
                self._forget(now)
            known = self._peers[peer] = [0, now]
        known[0] += 1
        known[1] = now
        return 0

    def _forget(self, now):
        oldest = -1
        found = None
        for peer in self._peers:
            age = ticks_diff(now, self._peers[peer][1])
            if age > oldest:
                oldest = age
                found = peer
        self._peers.pop(found)


def _same(a, b):
    """1 if the two texts are equal, else 0, in a time that does not depend on them."""
    x = hashlib.sha256(a.encode()).digest()
    y = hashlib.sha256(b.encode()).digest()
    difference = 0
    for i in range(32):
        difference |= x[i] ^ y[i]
    return 1 if difference == 0 else 0


def host_ok(host, names):
    """True if the Host header names this board by address or by one of its own names.

    A foreign name that leads here is how pages of others would reach us (DNS rebinding).
    """
    host = host.lower()
    if host.startswith("["):
        return True
    host = host.split(":")[0]
    for name in names:
        if host in ("localhost", name.lower(), name.lower() + ".local"):
            return True
    parts = host.split(".")
    return len(parts) == 4 and all([p.isdigit() for p in parts])


def origin_ok(origin, host):
    """True if a browser's Origin is our own page, or there is none (not a browser)."""
    return origin is None or origin.lower() == "http://" + host.lower()
