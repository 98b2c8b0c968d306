"""One record of a session: its bytes, its kind, and what its own content says about it.

Owns: judging a record by its JSON alone (where the idx is silent) and checking its content.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from upyclaw_host.formats.findings import Report
from upyclaw_host.formats.index import Backend, Entry, RecordType
from upyclaw_host.formats.jsontext import Parsed, parse


class Origin(str, Enum):
    """Where the reader found a record."""

    INDEX = "idx"  # an idx entry points at it
    LINE = "line"  # a complete line of the data file without a usable entry
    OPEN = "open"  # the user's words of a turn that is not answered yet, in `<name>.log.open`


def infer_type(value: Any) -> RecordType:
    """Kind of a record by its JSON: an array is tool results, tool calls make a TOOL record."""
    if isinstance(value, list):
        return RecordType.RESULT
    if not isinstance(value, dict):
        return RecordType.UNKNOWN
    role = value.get("role")
    if role == "user":
        return RecordType.USER
    if role == "tool":
        return RecordType.RESULT
    if role != "assistant":
        return RecordType.UNKNOWN
    return RecordType.TOOL if has_calls(value) else RecordType.FINAL


def has_calls(message: dict[str, Any]) -> bool:
    """True if an assistant message asks for tools, in either dialect."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return True
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_use" for block in content
    )


def infer_backend(value: Any, before: Backend = Backend.OPENAI) -> Backend:
    """Dialect of a record by its JSON; `before` (the record before) where it can't tell."""
    if not isinstance(value, dict):
        return before
    if "_claw_provider_state" in value:
        return Backend.RESPONSES
    if value.get("role") != "assistant":
        return before
    if isinstance(value.get("content"), list):
        return Backend.ANTHROPIC
    return Backend.OPENAI if has_calls(value) else before


@dataclass(frozen=True)
class Record:
    """One record. `offset` and `length` (line feed included) are those in the data file.

    A record of origin `OPEN` is not in the data file yet: its offset is the place it will get.
    """

    number: int
    offset: int
    length: int
    rtype: RecordType
    fmt: Backend
    origin: Origin
    raw: bytes
    parsed: Parsed

    @property
    def value(self) -> Any:
        """The JSON value, None if the bytes are no JSON."""
        return self.parsed.value

    @property
    def ok(self) -> bool:
        """True if the record is JSON."""
        return self.parsed.ok

    @property
    def end(self) -> int:
        """Offset of the first byte behind the record."""
        return self.offset + self.length


def make_record(
    number: int,
    offset: int,
    raw: bytes,
    entry: Entry | None,
    origin: Origin,
    before: Backend = Backend.OPENAI,
) -> Record:
    """Build a record from its bytes (no line feed); the idx entry, if any, decides its kind."""
    parsed = parse(raw)
    rtype, fmt = infer_type(parsed.value), infer_backend(parsed.value, before)
    if entry is not None:
        if 1 <= entry.rtype <= 4:
            rtype = RecordType(entry.rtype)
        if 0 <= entry.fmt <= 3:
            fmt = Backend(entry.fmt)
    return Record(number, offset, len(raw) + 1, rtype, fmt, origin, raw, parsed)


def check_content(record: Record, entry: Entry | None, report: Report, base: int = 0) -> None:
    """Report what is wrong with a record's bytes; `base` is added to offsets in the file."""
    start, number = record.offset + base, record.number
    for problem in record.parsed.problems:
        where = f"record {number}, byte {problem.at} of it: {problem.message}"
        if problem.code == "not-json":
            text = f"{where}; it is kept in the file and left out of requests"
            report.error(problem.code, start + problem.at, text, number)
        elif problem.code == "nul-byte":
            report.error(problem.code, start + problem.at, where, number)
        elif record.ok:
            text = f"{where}; it is shown cleaned"
            report.warning(problem.code, start + problem.at, text, number)
    if not record.ok:
        return
    seen = infer_type(record.value)
    if seen is RecordType.UNKNOWN:
        text = f"record {number} is JSON, but no chat message"
        report.warning("no-message", start, text, number)
    elif entry is not None and entry.rtype != seen and 1 <= entry.rtype <= 4:
        named = RecordType(entry.rtype).name
        text = f"record {number} is {named} in the idx, its text looks like {seen.name}"
        report.warning("type-differs", start, text, number)
