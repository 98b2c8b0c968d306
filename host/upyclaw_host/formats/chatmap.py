"""Chat maps: which sessions a chat has and which one is current (SPEC-context-and-tools §3).

Owns: bytes of `chat_map/chat_*.json` -> `ChatMap`, and from it the ids of session files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from upyclaw_host.formats.findings import Finding, Report
from upyclaw_host.formats.jsontext import parse
from upyclaw_host.formats.names import chat_map_file_name, session_file_name

MAX_SESSIONS = 32
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


@dataclass(frozen=True)
class ChatMap:
    """One chat: `key` such as `chat:serial:1`, its session aliases in order, the current one."""

    path: str
    key: str
    current: str
    aliases: tuple[str, ...]

    def session_id(self, alias: str) -> str:
        """Id of the session an alias names."""
        return f"{self.key}:{alias}"

    def files(self) -> dict[str, str]:
        """File name of the data file -> alias."""
        return {session_file_name(self.session_id(alias)): alias for alias in self.aliases}


def parse_chat_map(raw: bytes, path: str) -> tuple[ChatMap | None, list[Finding]]:
    """Parse a chat map; `path` is shown in findings. None if nothing usable is in it."""
    report = Report(path)
    parsed = parse(raw)
    value = parsed.value
    for problem in parsed.problems:
        text = f"chat map: {problem.message}; the board rebuilds it from the session files"
        report.error("map-" + problem.code, problem.at, text)
    if not isinstance(value, dict):
        if parsed.ok:
            report.error("map-shape", 0, "chat map: not an object")
        return None, report.findings
    key, current, listed = (value.get(k) for k in ("chat_key", "current_alias", "sessions"))
    if not isinstance(key, str) or not isinstance(listed, list):
        report.error("map-shape", 0, "chat map: chat_key or sessions is missing")
        return None, report.findings
    aliases = tuple(dict.fromkeys(a for a in listed if isinstance(a, str) and _ALIAS.match(a)))
    if len(aliases) != len(listed):
        report.error("map-aliases", 0, "chat map: an alias is not valid or stands twice")
    if not 1 <= len(listed) <= MAX_SESSIONS:
        text = f"chat map: {len(listed)} sessions, allowed are 1 to {MAX_SESSIONS}"
        report.error("map-count", 0, text)
    if current not in aliases:
        report.error("map-current", 0, f"chat map: current_alias {current!r} is not in its list")
        current = aliases[0] if aliases else ""
    name = path.rpartition("/")[2]
    if name != chat_map_file_name(key):
        text = f"chat map: the name does not fit its chat_key, {chat_map_file_name(key)} would"
        report.warning("map-name", None, text)
    return ChatMap(path, key, str(current), aliases), report.findings
