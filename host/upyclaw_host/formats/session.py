"""Read a session: data, idx and the files beside them (SPEC-session, docs/formats.md).

Owns: which records a session holds. The data file is the truth; an idx entry is believed where it
points at one whole record, every other complete line is a record of its own. So a reader never
sees fewer records than there are complete lines. Never raises on any bytes, never changes any.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from upyclaw_host.formats.findings import Finding, Report, Severity
from upyclaw_host.formats.index import Backend, Entry, Index, IndexState, parse_index
from upyclaw_host.formats.jsontext import parse
from upyclaw_host.formats.records import Origin, Record, check_content, make_record

_LF = 0x0A
_LAG = 200  # records an idx may lag on a board: 8 turns with many tool rounds
LIMIT = 153_600  # data bytes above which a completed turn compacts


@dataclass(frozen=True)
class SessionBytes:
    """The files of one session: role (`names.ROLES`) -> content, role -> path to show."""

    name: str
    parts: Mapping[str, bytes]
    paths: Mapping[str, str] = field(default_factory=dict)
    live: bool = False  # the board's own file system, where an idx may lag or not be there yet

    def path(self, role: str) -> str:
        """Path to show for a role, also for a file that is not there."""
        if role in self.paths:
            return self.paths[role]
        tails = {"data": "", "idx": ".idx", "open": ".open", "idx.new": ".idx.new"}
        base = self.paths.get("data", self.name)
        return base + tails.get(role, "." + role.replace("data.", ""))


@dataclass(frozen=True)
class Fragment:
    """Bytes of the data file that belong to no complete line: an unfinished write."""

    offset: int
    raw: bytes


@dataclass(frozen=True)
class SessionPair:
    """A session as read. `records` is in file order; the last may be an unanswered `.open` one."""

    name: str
    data_size: int
    index: Index
    records: tuple[Record, ...]
    fragments: tuple[Fragment, ...]
    blocked: bool
    findings: tuple[Finding, ...]

    @property
    def read_only(self) -> bool:
        """True if the idx is of a version this program doesn't know: nothing may be rewritten."""
        return self.index.state is IndexState.FOREIGN

    @property
    def unindexed(self) -> int:
        """Records of the data file without a usable idx entry."""
        return sum(record.origin is Origin.LINE for record in self.records)

    @property
    def pending(self) -> bool:
        """True if the last question waits for its answer in `.open`."""
        return bool(self.records) and self.records[-1].origin is Origin.OPEN


@dataclass
class _Span:
    """A piece of the data file that holds one record."""

    offset: int
    length: int
    entry: Entry | None


def _is_json(raw: bytes) -> bool:
    return parse(raw).ok


class _Believer:
    """Decides which idx entries point at one whole record each."""

    def __init__(self, data: bytes, report: Report) -> None:
        self.data = data
        self.report = report
        self.spans: list[_Span] = []
        self._starts: list[int] = []
        self._last = -1

    def take(self, entry: Entry) -> None:
        """Believe the entry or report why not."""
        fault = self._fault(entry)
        if fault is not None:
            code, text = fault
            self.report.error(code, entry.at, f"entry {entry.number} {text}", entry.number)
            return
        self._check_kind(entry)
        if self.data[entry.end - 1] != _LF:
            byte = self.data[entry.end - 1]
            text = f"the line end of record {entry.number} at byte {entry.end - 1} of data is "
            self.report.error(
                "line-end-overwritten", entry.at, f"{text}0x{byte:02x}", entry.number
            )
        if entry.offset < self._last:
            text = (
                f"entry {entry.number} is out of order: records are shown in the order of the data"
            )
            self.report.error("entry-order", entry.at, text, entry.number)
        self._last = entry.offset
        place = bisect.bisect_left(self._starts, entry.offset)
        self._starts.insert(place, entry.offset)
        self.spans.insert(place, _Span(entry.offset, entry.length, entry))

    def _fault(self, entry: Entry) -> tuple[str, str] | None:
        data, size = self.data, len(self.data)
        where = f"(offset {entry.offset}, {entry.length} bytes)"
        if entry.length == 0:
            return "entry-empty", "has length 0"
        if entry.end > size:
            return (
                "entry-beyond-data",
                f"{where} reaches beyond the end of the data ({size} bytes)",
            )
        if data[entry.end - 1] != _LF and not self._overwritten_end(entry):
            return "entry-no-line-end", f"{where} does not end at a line end"
        if self._overlaps(entry):
            return "entry-overlaps", f"{where} overlaps another entry"
        raw = data[entry.offset : entry.end - 1]
        if b"\n" in raw and not _is_json(raw):
            return "entry-spans-lines", f"{where} spans several records"
        if entry.offset and data[entry.offset - 1] != _LF and not _is_json(raw):
            return "entry-inside-line", f"{where} begins inside a line"
        return None

    def _overwritten_end(self, entry: Entry) -> bool:
        """True if the record is whole and only its line end became another byte."""
        end = entry.end - 1
        if entry.length < 3 or not _is_json(self.data[entry.offset : end]):
            return False
        return self.data[entry.offset] in b"{["

    def _overlaps(self, entry: Entry) -> bool:
        place = bisect.bisect_left(self._starts, entry.offset)
        if place < len(self.spans) and self.spans[place].offset < entry.end:
            return True
        before = self.spans[place - 1] if place else None
        return before is not None and before.offset + before.length > entry.offset

    def _check_kind(self, entry: Entry) -> None:
        if not 1 <= entry.rtype <= 4:
            text = f"entry {entry.number} has unknown record_type {entry.rtype}"
            self.report.error("entry-type", entry.at + 8, text, entry.number)
        if not 0 <= entry.fmt <= 3:
            text = f"entry {entry.number} has unknown backend_format {entry.fmt}"
            self.report.error("entry-format", entry.at + 9, text, entry.number)


def _lines(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """`(offset, length, whole)` of the lines in a range; the last may lack its line end."""
    while start < end:
        stop = data.find(b"\n", start, end)
        if stop < 0:
            yield start, end - start, False
            return
        yield start, stop + 1 - start, True
        start = stop + 1


def _fill(
    data: bytes, spans: list[_Span], indexed: bool, report: Report
) -> tuple[list[_Span], list[Fragment]]:
    """Add a span for every complete line outside `spans`; report what lies there."""
    filled: list[_Span] = []
    fragments: list[Fragment] = []
    at = 0
    for span in [*spans, _Span(len(data), 0, None)]:
        found = 0
        for offset, length, whole in _lines(data, at, span.offset):
            if not whole:
                fragments.append(Fragment(offset, data[offset : offset + length]))
            else:
                filled.append(_Span(offset, length, None))
                found += 1
        if found and indexed:
            _report_unindexed(at, span.offset, found, span.offset == len(data), report)
        if span.length:
            filled.append(span)
        at = span.offset + span.length
    return filled, fragments


def _report_unindexed(start: int, end: int, lines: int, tail: bool, report: Report) -> None:
    whole = f"{lines} whole line{'s' if lines > 1 else ''}"
    if tail:
        text = f"tail of {end - start} bytes in data without idx entry ({whole}, shown)"
        report.info("unindexed-tail", start, text)
    else:
        text = f"bytes {start} to {end - 1} of the data have no usable idx entry ({whole}, shown)"
        report.warning("unindexed-gap", start, text)


def _report_fragments(
    fragments: list[Fragment], data: bytes, entries: tuple[Entry, ...], report: Report
) -> None:
    for part in fragments:
        size, at = len(part.raw), part.offset
        if at + size < len(data):
            text = f"{size} bytes of an unfinished write stand between two records"
            report.error("fragment", at, text)
        elif any(entry.offset == at for entry in entries) and _is_json(part.raw):
            report.error("line-end-missing", at + size, "last record lacks its line end")
        else:
            text = f"unfinished write: the last {size} bytes have no line end"
            report.warning("torn-tail", at, text)


def _report_index(index: Index, live: bool, lines: int, size: int, report: Report) -> None:
    """What an absent or empty idx means: normal in a young session of a board, else a fault."""
    text = f"{lines} whole line{'' if lines == 1 else 's'} in data"
    severity = Severity.INFO if live and lines <= _LAG else Severity.WARNING
    if index.state is IndexState.EMPTY:
        if not live:
            text += "; a copy that broke off, or a cut before its first entry (pull it again)"
        report.add(severity, "idx-empty", 0, f"idx empty; {text}")
    elif index.state is IndexState.MISSING and size:
        text += "; the board writes it every few turns" if live else "; the board makes a new one"
        report.add(severity, "idx-missing", None, f"idx missing; {text}")


def parse_open(raw: bytes) -> tuple[int, bytes] | None:
    """`.open` -> `(offset, record without line feed)`, None if it is not whole."""
    head, found, rest = raw.partition(b"\n")
    if not found or not head.isdigit() or len(head) > 10 or not rest.endswith(b"\n"):
        return None
    return int(head), rest[:-1]


def _read_open(
    source: SessionBytes, data: bytes, records: list[Record], report: Report
) -> Record | None:
    """The unanswered question, if `.open` holds one that is not in the data yet."""
    raw = source.parts["open"]
    parsed = parse_open(raw)
    if parsed is None:
        text = f"{len(raw)} bytes that are no whole question: a cut while it was written"
        report.warning("open-torn", 0, text)
        return None
    offset, body = parsed
    if len(data) > offset:
        # The usual left-over of an answered turn, unless something else stands in its place.
        if data[offset : offset + len(body) + 1] != body + b"\n":
            text = f"its question belongs at byte {offset} of data, where something else stands"
            report.warning("open-differs", 0, text)
        return None
    if len(data) < offset:
        text = f"it was written when the data had {offset} bytes, now {len(data)}"
        report.error("open-offset", 0, text)
    before = records[-1].fmt if records else Backend.OPENAI
    record = make_record(len(records), offset, body, None, Origin.OPEN, before)
    text = "the last question is not answered yet; it waits here"
    report.info("open-pending", 0, text, record.number)
    check_content(record, None, report, raw.index(b"\n") + 1 - offset)
    return record


def _pick(source: SessionBytes, findings: list[Finding]) -> tuple[bytes | None, bytes | None, str]:
    """Data, idx and the idx's role: an unfinished compaction decides which files count."""
    parts = source.parts

    def tell(role: str, code: str, message: str, severity: Severity = Severity.INFO) -> None:
        findings.append(Finding(source.path(role), None, code, message, severity))

    data, idx, role = parts.get("data"), parts.get("idx"), "idx"
    if "data.new" in parts and data is None:
        tell(
            "data.new", "new-only", "only the new copy is left of the data: read", Severity.WARNING
        )
        data = parts["data.new"]
        if "idx.new" in parts:
            idx, role = parts["idx.new"], "idx.new"
    elif "data.new" in parts:
        tell(
            "data.new", "compaction-undone", "left by a cut before a compaction counted; not used"
        )
    elif "idx.new" in parts:
        tell("idx.new", "compaction-unfinished", "the idx of a finished compaction: read instead")
        idx, role = parts["idx.new"], "idx.new"
    for old, text in (
        ("old", "older turns that were trimmed away"),
        ("data.bad", "damaged bytes of the data, set aside"),
        ("idx.bad", "a damaged idx, set aside"),
    ):
        if old in parts:
            tell(old, "set-aside", f"{text} ({len(parts[old])} bytes)")
    if "blocked" in parts:
        text = "the session takes no new turns until it is trimmed or deleted"
        if data is not None and len(data) <= LIMIT:
            text = "left over: the data is below the limit, the board removes it"
        tell("blocked", "blocked", text)
    return data, idx, role


def read_session(source: SessionBytes) -> SessionPair:
    """Read one session from the bytes of its files. Never raises on any content."""
    findings: list[Finding] = []
    found, idx, role = _pick(source, findings)
    data = found or b""
    on_idx, on_data = Report(source.path(role)), Report(source.path("data"))
    index = parse_index(idx, on_idx)
    if found is None and index.entries:
        last = index.entries[-1]
        text = (
            f"data file missing; the idx tells of {len(index.entries)} records, {last.end} bytes"
        )
        on_data.error("data-missing", None, text)
    believer = _Believer(data, on_idx)
    for entry in index.entries if found is not None else ():
        believer.take(entry)
    spans, fragments = _fill(data, believer.spans, index.state is IndexState.OK, on_data)
    _report_index(index, source.live, len(spans), len(data), on_idx)
    _report_fragments(fragments, data, index.entries, on_data)
    records: list[Record] = []
    for number, span in enumerate(spans):
        raw = data[span.offset : span.offset + span.length - 1]
        origin = Origin.LINE if span.entry is None else Origin.INDEX
        before = records[-1].fmt if records else Backend.OPENAI
        record = make_record(number, span.offset, raw, span.entry, origin, before)
        check_content(record, span.entry, on_data)
        records.append(record)
    on_open = Report(source.path("open"))
    if "open" in source.parts:
        pending = _read_open(source, data, records, on_open)
        if pending is not None:
            records.append(pending)
    told = [*on_data.findings, *on_idx.findings, *on_open.findings, *findings]
    return SessionPair(
        source.name,
        len(data),
        index,
        tuple(records),
        tuple(fragments),
        "blocked" in source.parts,
        tuple(told),
    )
