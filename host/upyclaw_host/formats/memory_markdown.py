"""`MEMORY.md`: the memories for people (spec/SPEC-longterm.md §5).

Owns: reading it back far enough to tell what it shows. It is made from the records, and lazily:
being behind them is no fault, showing what was forgotten is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from upyclaw_host.formats.findings import Report
from upyclaw_host.formats.jsontext import clean_text

_ENTRY = re.compile(r"- `([^`\n]+)` (.*)")
_FACTS = re.compile(r"  time=(-|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) access=(\d+) labels=(\[.*\])")


@dataclass(frozen=True)
class Shown:
    """A memory as MEMORY.md shows it; `time` is local time as text, `access` -1 if not told."""

    id: str
    content: str
    time: str
    access: int
    offset: int


def parse_markdown(raw: bytes, path: str) -> tuple[list[Shown], Report]:
    """The memories in the order shown, hottest first. Never raises."""
    report = Report(path)
    shown: list[Shown] = []
    lines = raw.split(b"\n")
    if not raw.startswith(b"# Long-term Memory\n"):
        report.info("markdown-head", 0, 'does not begin with "# Long-term Memory"')
    at = 0
    for number, line in enumerate(lines):
        text = clean_text(line)
        entry = _ENTRY.fullmatch(text)
        if entry is not None:
            after = lines[number + 1] if number + 1 < len(lines) else b""
            facts = _FACTS.fullmatch(clean_text(after))
            if facts is None:
                told = f"{entry[1]} has no line with its facts; the file may be cut"
                report.info("markdown-facts", at, told, number)
            shown.append(
                Shown(
                    entry[1],
                    entry[2],
                    facts[1] if facts is not None else "-",
                    int(facts[2]) if facts is not None else -1,
                    at,
                )
            )
        at += len(line) + 1
    return shown, report
