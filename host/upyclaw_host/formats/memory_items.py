"""`memory_records.jsonl`: which items there are (spec/SPEC-longterm.md §1, §5).

Owns: the meaning of a line, which line of an id counts, and what is wrong with the bytes. The
last line of an id wins and keeps the place of the first; a deleted one ends it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from upyclaw_host.formats.findings import Report
from upyclaw_host.formats.jsontext import clean_text, parse

LIMITS = {"id": 39, "source": 15, "content": 255, "tags": 95, "keywords": 127}  # bytes
LONGEST = 1022  # bytes of a line without its end that a reference reader takes
LONGEST_OWN = 3200  # of a line that a board of ours still takes
CAPACITY = 128
_SEPARATORS = re.compile("[,;/|]")
_BLANKS = " \t\n\v\f\r"
_ABSENT = object()


@dataclass(frozen=True)
class Item:
    """A memory as its record says it. Times are Unix seconds, 0 for unknown.

    `line` (0-based) and `offset` tell where the line that counts stands.
    """

    id: str
    source: str
    content: str
    tags: str
    keywords: str
    created_at: int
    updated_at: int
    access_count: int
    summary_ids: tuple[int, ...]
    pinned: bool
    line: int
    offset: int

    @property
    def labels(self) -> tuple[str, ...]:
        """Summary labels: the first 8 characters of each tag, each once, at most 3."""
        return tuple(dict.fromkeys(term[:8] for term in split_terms(self.tags)))[:3]

    @property
    def index_terms(self) -> tuple[str, ...]:
        """What the keyword index of the item is made of: its keywords, or else its tags."""
        return tuple(split_terms(self.keywords) or split_terms(self.tags))


@dataclass
class Records:
    """What the record file says. `ended` are ids whose last line is a deletion; `forgotten_bytes`
    the bytes of lines that hold text of forgotten items."""

    items: list[Item] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)  # id -> byte of the line that ends it
    dead_bytes: int = 0
    size: int = 0


def split_terms(text: str) -> list[str]:
    """Terms of a list of tags or keywords: split at `, ; / |`, trimmed, empty ones dropped."""
    return [term for part in _SEPARATORS.split(text) if (term := part.strip(_BLANKS))]


def _cut(text: str, limit: int) -> str:
    """The longest beginning of whole characters in `limit` bytes."""
    return text.encode()[:limit].decode("utf-8", "ignore")


class _Line:
    """Reads the fields of one object; what is odd about them is told once."""

    def __init__(self, value: dict[str, Any], line: int, at: int, report: Report) -> None:
        self._value = value
        self._lower: dict[str, Any] = {}
        for key, one in value.items():
            self._lower.setdefault(key.lower(), one)
        self.line, self.at, self._report = line, at, report

    def _tell(self, code: str, text: str) -> None:
        self._report.warning(code, self.at, f"line {self.line + 1}: {text}", self.line)

    def get(self, key: str) -> Any:
        """A field; keys count whatever their case."""
        return self._value.get(key, self._lower.get(key, _ABSENT))

    def text(self, key: str) -> str:
        value = self.get(key)
        if value is _ABSENT:
            return ""
        if not isinstance(value, str):
            self._tell("field-type", f"{key} is no text and is read as empty")
            return ""
        limit = LIMITS[key]
        size = len(value.encode())
        if size > limit:
            self._tell("field-long", f"{key} has {size} bytes; a board keeps {limit}")
        return _cut(value, limit)

    def number(self, key: str, most: int) -> int:
        value = self.get(key)
        if value is _ABSENT:
            return 0
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._tell("number", f"{key} is no number and is read as 0")
            return 0
        try:
            whole = int(value)
        except (ValueError, OverflowError):
            whole = -1
        if isinstance(value, float):
            self._tell("number", f"{key} is {value!r}, not a whole number")
        if 0 <= whole <= most:
            return whole
        read = most if whole > most == 65535 else 0
        self._tell("number", f"{key} is out of its range and is read as {read}")
        return read

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if value is not _ABSENT and not isinstance(value, bool):
            self._tell("flag", f"{key} is neither true nor false and is read as false")
        return value is True

    def ids(self) -> tuple[int, ...]:
        value = self.get("summary_ids")
        if value is _ABSENT:
            return ()
        good = isinstance(value, list) and all(
            isinstance(one, int) and not isinstance(one, bool) and 0 < one < 65536 for one in value
        )
        if not good or len(value) > 3:
            self._tell("label-ids", "summary_ids is no list of at most three ids")
        if not isinstance(value, list):
            return ()
        return tuple(
            one if isinstance(one, int) and not isinstance(one, bool) and 0 < one < 65536 else 0
            for one in value[:3]
        )


def _objects(raw: bytes) -> list[Any]:
    """The JSON values that stand in a line one behind the other, as far as they are whole."""
    text = clean_text(raw).strip(_BLANKS)
    decoder = json.JSONDecoder(strict=False)
    found: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(value)
        while at < len(text) and text[at] in _BLANKS:
            at += 1
    return found


class _Reader:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.records = Records()
        self._places: dict[str, Item | None] = {}
        self._sizes: dict[str, int] = {}

    def line(self, number: int, at: int, raw: bytes, whole: bool) -> None:
        """Take one line (without its end)."""
        if not raw.strip():
            return
        size = len(raw) + whole
        if len(raw) > LONGEST_OWN:
            text = f"line {number + 1} has {len(raw):,} bytes; no board reads more than "
            self.report.error("line-long", at, f"{text}{LONGEST_OWN:,}", number)
            self.records.dead_bytes += size
            return
        parsed = parse(raw)
        values = [parsed.value] if parsed.ok else self._broken(number, at, raw, whole)
        for problem in parsed.problems if parsed.ok else ():
            text = f"line {number + 1}: {problem.message}"
            self.report.warning(problem.code, at + min(problem.at, len(raw)), text, number)
        taken = [self._object(value, number, at) for value in values]
        ids = [one for one in taken if one]
        if not ids:
            self.records.dead_bytes += size
            return
        if len(raw) > LONGEST:
            text = f"line {number + 1} has {len(raw):,} bytes; a reference reader stops at "
            self.report.warning("line-long-reference", at, f"{text}{LONGEST:,}", number)
        self._sizes[ids[-1]] = size
        if not whole:
            text = "the last line has no line end; a reference writer would glue its next to it"
            self.report.warning("line-end-missing", at + len(raw), text, number)

    def _broken(self, number: int, at: int, raw: bytes, whole: bool) -> list[Any]:
        """What can be had of a line that is not one JSON value."""
        found = [one for one in _objects(raw) if isinstance(one, dict)]
        name = f"line {number + 1}"
        if not whole and not found:
            text = f"unfinished write: the last {len(raw)} bytes are no whole record"
            self.report.warning("torn-tail", at, text, number)
        elif len(found) > 1:
            text = f"{name}: {len(found)} records stand in one line (a torn one ate the next)"
            self.report.error("glued", at, text, number)
        elif found:
            text = f"{name}: bytes of an unfinished write stand behind its record"
            self.report.error("glued", at, text, number)
        else:
            why = next((p for p in parse(raw).problems if p.code == "not-json"), None)
            where = at + why.at if why is not None else at
            self.report.error("not-json", where, f"{name}: not JSON, no memory to read", number)
        return found

    def _object(self, value: Any, number: int, at: int) -> str:
        """Take one value; the id if it is a record."""
        if not isinstance(value, dict):
            text = f"line {number + 1}: JSON, but no record"
            self.report.error("no-record", at, text, number)
            return ""
        line = _Line(value, number, at, self.report)
        name = line.text("id")
        if not name:
            text = f"line {number + 1}: a record without id is not read"
            self.report.error("no-id", at, text, number)
            return ""
        self.records.dead_bytes += self._sizes.pop(name, 0)
        if line.flag("deleted"):
            self._places.pop(name, None)
            self.records.ended[name] = at
            return name
        self.records.ended.pop(name, None)
        item = Item(
            name,
            line.text("source"),
            line.text("content"),
            line.text("tags"),
            line.text("keywords"),
            line.number("created_at", 0xFFFFFFFF),
            line.number("updated_at", 0xFFFFFFFF),
            line.number("access_count", 65535),
            line.ids(),
            line.flag("pinned"),
            number,
            at,
        )
        if not item.content.strip():
            self.report.warning("empty", at, f"line {number + 1}: a memory without text", number)
        self._places[name] = item
        return name

    def end(self) -> Records:
        """All lines are taken."""
        self.records.items = [item for item in self._places.values() if item is not None]
        ended = set(self.records.ended)
        self.records.dead_bytes += sum(size for name, size in self._sizes.items() if name in ended)
        return self.records


def parse_records(raw: bytes, path: str) -> tuple[Records, Report]:
    """The items of the file in record order. Never raises on any content."""
    report = Report(path)
    reader = _Reader(report)
    at = 0
    for number, line in enumerate(raw.split(b"\n")):
        reader.line(number, at, line, at + len(line) < len(raw))
        at += len(line) + 1
    records = reader.end()
    records.size = len(raw)
    if len(records.items) > CAPACITY:
        text = f"{len(records.items)} memories; a board keeps {CAPACITY} and drops the coldest"
        report.info("too-many", None, text)
    return records, report
