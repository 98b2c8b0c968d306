"""A memory folder as a whole: items by heat, what became of each, and what is wrong.

Owns: the folder layout, the accesses that only the digest knows, the order by heat, and checks
across files (spec/SPEC-longterm.md §4-§7, docs/memory.md). Only the records are the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from upyclaw_host.formats.catalog import FileSource
from upyclaw_host.formats.findings import Finding, Report, Severity
from upyclaw_host.formats.memory_digest import Event, parse_digest
from upyclaw_host.formats.memory_index import MemoryIndex, check_index, parse_index
from upyclaw_host.formats.memory_items import CAPACITY, Item, Records, parse_records
from upyclaw_host.formats.memory_markdown import Shown, parse_markdown

#: Folders that may hold a memory, the first that does counts. "" is the source itself.
FOLDERS = ("data/memory", "memory", "")
RECORDS, INDEX = "memory_records.jsonl", "memory_index.json"
MARKDOWN, DIGEST = "MEMORY.md", "memory_digest.log"
FILES = (RECORDS, INDEX, MARKDOWN, DIGEST)
PROFILE = ("user.md", "soul.md", "identity.md")

_SANE = 1577836800  # 2020-01-01: a time before it is that of a clock that was never set
_DAY = 86400
_DIGEST_BOUND = 16384  # bytes; a board of ours shortens a longer digest
_PROFILE_BOUND = 1500  # bytes of a profile file that a board reads


@dataclass
class Memory:
    """A memory folder. `items` are in record order, with all accesses that are known."""

    folder: str
    files: dict[str, bytes] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    index: MemoryIndex | None = None
    shown: list[Shown] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    findings: list[Finding] = field(default_factory=list)

    def path(self, name: str) -> str:
        """Where a file of the folder lies in the source."""
        return f"{self.folder}/{name}" if self.folder else name

    def get(self, wanted: str) -> Item | None:
        """The item with this id."""
        return next((item for item in self.items if item.id == wanted), None)

    def history(self, wanted: str) -> list[Event]:
        """What the digest tells of an id, oldest first."""
        old = {wanted}
        for event in self.events:
            if event.id == wanted and event.action in ("update", "update_store"):
                # The reference gives a changed item a new id.
                old.add(event.extra)
        return [event for event in self.events if event.id in old]

    def by_heat(self, now: int) -> list[Item]:
        """The items, hottest first: accesses, then time, then id."""
        times = effective_times(self.items, now)
        order = sorted(
            zip(self.items, times, strict=True),
            key=lambda one: (-one[0].access_count, -one[1], one[0].id.encode()),
        )
        return [item for item, _ in order]

    def scores(self, now: int) -> dict[str, int]:
        """Id -> eviction score: accesses times 3 plus hours; the lowest goes first."""
        times = effective_times(self.items, now)
        return {
            item.id: item.access_count * 3 + time // 3600
            for item, time in zip(self.items, times, strict=True)
        }


def effective_times(items: Iterable[Item], now: int) -> list[int]:
    """`updated_at` of each; for one that cannot be true the last good one before it, or the first
    good one of all (a clock that was never set, or that stood in the future)."""
    times = [item.updated_at for item in items]
    good = [time >= _SANE and (not now or time <= now + _DAY) for time in times]
    first = next((time for time, fine in zip(times, good, strict=True) if fine), 0)
    last, out = 0, []
    for time, fine in zip(times, good, strict=True):
        if fine:
            last = time
        out.append(last or first)
    return out


def find_folder(paths: Iterable[str]) -> str | None:
    """The folder of a source that holds a memory, None if none does."""
    found = {path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] in FILES}
    return next((folder for folder in FOLDERS if folder in found), None)


def load_memory(source: FileSource) -> Memory | None:
    """Read the memory of a source; None if there is none."""
    paths = source.files()
    folder = find_folder(paths)
    if folder is None:
        return None
    prefix = f"{folder}/" if folder else ""
    names = {path[len(prefix) :]: path for path in paths if path.startswith(prefix)}
    parts = {name: source.read(names[name]) for name in (*FILES, *PROFILE) if name in names}
    memory = read_memory(parts, folder)
    for name, path in sorted(names.items()):
        if name.startswith(FILES) and name not in FILES:
            text = {
                ".bad": "damaged bytes, set aside",
                ".new": "left by a cut before it counted; not read",
            }.get("." + name.rpartition(".")[2], "not read")
            memory.findings.append(Finding(path, None, "side-file", text, Severity.INFO))
    return memory


def read_memory(parts: dict[str, bytes], folder: str = "") -> Memory:
    """Read a memory from the bytes of its files (file name -> content). Never raises."""
    memory = Memory(folder, dict(parts))
    records, on_records = parse_records(parts.get(RECORDS, b""), memory.path(RECORDS))
    memory.records = records
    if RECORDS not in parts:
        text = "there are no records; whatever the other files show is not read back"
        on_records.add(
            Severity.ERROR if _shows_items(parts) else Severity.INFO, "records-missing", None, text
        )
    memory.events, on_digest = parse_digest(parts.get(DIGEST, b""), memory.path(DIGEST))
    on_index = Report(memory.path(INDEX))
    if INDEX in parts:
        memory.index, on_index = parse_index(parts[INDEX], memory.path(INDEX))
    elif records.items:
        on_index.info("index-missing", None, "there is no index; the board makes it anew")
    size = len(parts[DIGEST]) if DIGEST in parts else None
    if memory.index is not None:
        check_index(memory.index, records.items, size, on_index)
    memory.items = _counted(memory, len(parts.get(DIGEST, b"")))
    if size is not None and size > _DIGEST_BOUND + 4096:
        on_digest.info("digest-long", None, f"{size:,} bytes; a board shortens it")
    on_markdown = Report(memory.path(MARKDOWN))
    if MARKDOWN in parts:
        memory.shown, on_markdown = parse_markdown(parts[MARKDOWN], memory.path(MARKDOWN))
        _check_markdown(memory, on_markdown)
    for report in (on_records, on_index, on_digest, on_markdown):
        memory.findings += report.findings
    _check_clock(memory)
    _check_profile(memory)
    return memory


def _shows_items(parts: dict[str, bytes]) -> bool:
    shown, _ = parse_markdown(parts.get(MARKDOWN, b""), MARKDOWN)
    return bool(shown)


def _counted(memory: Memory, size: int) -> list[Item]:
    """The items with the accesses that the digest holds and the records do not yet."""
    mark = memory.index.mark if memory.index is not None else -1
    start = mark if 0 <= mark <= size else 0
    pending: dict[str, list[int]] = {}
    for event in memory.events:
        if event.offset < start:
            continue
        if event.action == "compact":
            pending.clear()
        elif event.action == "update":
            # Our own writer puts all accesses so far into the record.
            pending.pop(event.id, None)
        elif event.action in ("recall", "refresh"):
            one = pending.setdefault(event.id, [0, 0])
            one[0] += event.action == "recall"
            if event.time <= 0xFFFFFFFF:
                one[1] = max(one[1], event.time)
    out = []
    for item in memory.records.items:
        count, time = pending.get(item.id, (0, 0))
        out.append(
            replace(
                item,
                access_count=min(65535, item.access_count + count),
                updated_at=max(item.updated_at, time),
            )
        )
    return out


def _check_markdown(memory: Memory, report: Report) -> None:
    live = {item.id: item for item in memory.items}
    gone = {event.id for event in memory.events if event.action == "forget"}
    gone |= set(memory.records.ended)
    behind = 0
    for one in memory.shown:
        if one.id in live:
            behind += live[one.id].content != one.content
        elif one.id in gone:
            text = f"still shows {one.id}, which was forgotten"
            report.warning("markdown-forgotten", one.offset, text)
        else:
            behind += 1
    behind += len(live.keys() - {one.id for one in memory.shown})
    if behind:
        text = f"differs from the records in {behind} memories; the board makes it anew"
        report.info("markdown-behind", None, text)


def _check_clock(memory: Memory) -> None:
    """Times that cannot be true (B08, B50): told, they neither doom nor crown an item."""
    report = Report(memory.path(RECORDS))
    for item in memory.items:
        if 0 < item.updated_at < _SANE:
            text = f"{item.id}: its time is that of a clock that was never set"
            report.info("clock", item.offset, text, item.line)
    memory.findings += report.findings
    if len(memory.items) > CAPACITY:
        return
    pinned = sum(item.pinned for item in memory.items)
    if pinned == CAPACITY:
        text = "every memory is pinned: nothing new can be stored"
        memory.findings.append(
            Finding(memory.path(RECORDS), None, "all-pinned", text, Severity.WARNING)
        )


def _check_profile(memory: Memory) -> None:
    """The files that a person may write by hand."""
    for name in PROFILE:
        data, report = memory.files.get(name, b""), Report(memory.path(name))
        if len(data) > _PROFILE_BOUND + 1:
            text = f"{len(data):,} bytes; a board reads the first {_PROFILE_BOUND:,}"
            report.warning("profile-long", _PROFILE_BOUND, text)
        try:
            data.decode()
        except UnicodeDecodeError as error:
            report.warning("not-utf8", error.start, "not UTF-8 from here on")
        memory.findings += report.findings
