"""`memory_digest.log`: who did what to which memory (spec/SPEC-longterm.md §5).

Owns: the meaning of its lines. A line is `<Unix seconds> TAB <action> TAB <id or -> [TAB <more>]`.
Ours add to the reference's actions `evict` (more: why), `refresh` (said again, no access) and
`forget` with `joined=<id>` (said the same as another).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from upyclaw_host.formats.findings import Report
from upyclaw_host.formats.jsontext import clean_text

ACTIONS = {
    "store": "stored",
    "update_store": "stored in place of another",
    "update": "changed",
    "forget": "forgotten",
    "recall": "recalled",
    "refresh": "said again",
    "evict": "evicted: the memory was full and this one the coldest",
    "compact": "files rewritten",
}
_LINE = re.compile(rb"(\d{1,10})\t([a-z_]{1,32})\t([^\t]+)(?:\t(.*))?", re.S)


@dataclass(frozen=True)
class Event:
    """One line: `time` in Unix seconds, 0 for unknown; `offset` its byte in the file."""

    time: int
    action: str
    id: str
    extra: str
    offset: int

    @property
    def told(self) -> str:
        """The event in words."""
        words = ACTIONS.get(self.action, self.action)
        if self.action == "forget" and self.extra.startswith("joined="):
            return f"joined with {self.extra[7:]}, which says the same"
        if self.action == "update" and self.extra not in ("", self.id):
            return f"changed; {self.extra} before"
        if self.action == "update_store" and self.extra:
            return f"stored in place of {self.extra}"
        if self.action == "evict" and self.extra:
            return f"{words} ({self.extra.replace('=', ' ')})"
        return words


def parse_digest(raw: bytes, path: str) -> tuple[list[Event], Report]:
    """The events in file order; lines that are none are told. Never raises."""
    report = Report(path)
    events: list[Event] = []
    at = 0
    parts = raw.split(b"\n")
    for number, line in enumerate(parts):
        whole = number < len(parts) - 1
        found = _LINE.fullmatch(line)
        if found is not None and whole:
            time, action, name, extra = found.groups(b"")
            event = Event(int(time), action.decode(), clean_text(name), clean_text(extra), at)
            if event.action not in ACTIONS:
                report.info("digest-action", at, f"unknown action {event.action}", number)
            events.append(event)
        elif line.strip() and whole:
            report.warning("digest-line", at, f"line {number + 1} is no event", number)
        elif line:
            text = f"unfinished write: the last {len(line)} bytes have no line end"
            report.warning("digest-torn", at, text, number)
        at += len(line) + 1
    return events, report
