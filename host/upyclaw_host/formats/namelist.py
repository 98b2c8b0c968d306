"""`sessions.txt`: which session id owns which file name (our own addition, docs/formats.md).

Owns: bytes of that list -> ids. Lines are `<file name><TAB><id, escaped as in JSON><LF>`.
"""

from __future__ import annotations

from upyclaw_host.formats.findings import Finding, Report
from upyclaw_host.formats.jsontext import parse
from upyclaw_host.formats.names import session_file_name

FILE_NAME = "sessions.txt"


def parse_name_list(raw: bytes, path: str) -> tuple[dict[str, str], list[Finding]]:
    """File name -> session id of every whole line; the first line of a name counts."""
    report = Report(path)
    owners: dict[str, str] = {}
    at = 0
    for line in _lines(raw):
        start, at = at, at + len(line)
        if not line.endswith(b"\n"):
            text = f"{len(line)} bytes of an unfinished line; the board begins a new one"
            report.warning("list-torn", start, text)
            continue
        if line == b"\n":
            continue
        name, tab, escaped = line[:-1].partition(b"\t")
        value = parse(b'"' + escaped + b'"')
        if not tab or not isinstance(value.value, str):
            report.warning("list-line", start, "a line that is no name and session id")
            continue
        known = name.decode("utf-8", "replace")
        if session_file_name(value.value) != known:
            text = f"{known} is not the file name of session {value.value!r}"
            report.warning("list-name", start, text)
        owners.setdefault(known, value.value)
    return owners, report.findings


def _lines(raw: bytes) -> list[bytes]:
    """Lines by LF alone: a CR belongs to its line."""
    parts = raw.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
