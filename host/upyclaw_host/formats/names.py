"""File names of sessions and chat maps (SPEC-session §1, SPEC-context-and-tools §3).

Owns: the name rules. A name can't be turned back into an id; ids come from the chat maps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEPT = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-")
_LOOKED_AT = 47  # bytes of the id that can reach the safe part, before the cut
_SAFE_BYTES = 24

SESSION_SUFFIX = ".log"
_BASE = re.compile(r"^(?P<base>s_.*_[0-9a-f]{8}\.log)(?P<tail>(?:\..*)?)$", re.DOTALL)

#: What stands behind `<base>.log` -> the part it plays; docs/formats.md tells our additions.
ROLES = {
    "": "data",
    ".idx": "idx",
    ".blocked": "blocked",
    ".open": "open",
    ".new": "data.new",
    ".idx.new": "idx.new",
    ".old": "old",
    ".old.new": "old.new",
    ".bad": "data.bad",
    ".idx.bad": "idx.bad",
    ".open.bad": "open.bad",
}


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def fnv1a(data: bytes) -> int:
    """32-bit FNV-1a."""
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def session_file_name(session_id: str) -> str:
    """Name of the data file of `session_id` (surrogateescape halves stand for raw bytes)."""
    raw = _utf8(session_id)
    safe = "".join(chr(b) if b in _KEPT else "_" for b in raw[:_LOOKED_AT])[:_SAFE_BYTES]
    return f"s_{safe or 'default'}_{fnv1a(raw):08x}{SESSION_SUFFIX}"


def chat_map_file_name(chat_key: str) -> str:
    """Name of the chat map of `chat_key`, such as `chat:serial:1`.

    Unlike in session names a run of bytes other than letters and digits (also `-`) becomes ONE
    `_`.
    """
    raw = _utf8(chat_key)
    safe = re.sub(rb"[^0-9A-Za-z]+", b"_", raw).decode()[:_SAFE_BYTES].rstrip("_")
    return f"chat_{safe}_{fnv1a(raw):08x}.json"


@dataclass(frozen=True)
class SessionFile:
    """A file name taken apart: `base` is the data file's name, `role` the file's part in it."""

    base: str
    role: str


def parse_session_file(name: str) -> SessionFile | None:
    """Recognise a file of a session, or None. Unknown tails give the role `other`."""
    match = _BASE.match(name)
    if match is None:
        return None
    tail = match["tail"]
    if tail in ROLES:
        return SessionFile(match["base"], ROLES[tail])
    return SessionFile(match["base"], "bad" if tail.endswith(".bad") else "other")
