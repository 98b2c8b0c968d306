"""The idx of a session: header and entries (SPEC-session §3), as they lie on flash.

Owns: bytes of `<name>.log.idx` -> entries. Whether they fit the data is judged in `session.py`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

from upyclaw_host.formats.findings import Report

MAGIC = 0x58444843  # on flash: 43 48 44 58, "CHDX"
VERSION = 1
HEADER = struct.Struct("<IHH")
ENTRY = struct.Struct("<IIBB")


class RecordType(IntEnum):
    """What a record is. `UNKNOWN` is in no valid idx: it marks a line nobody can judge."""

    UNKNOWN = 0
    USER = 1
    FINAL = 2
    TOOL = 3
    RESULT = 4


class Backend(IntEnum):
    """Dialect that was configured when the record was written."""

    UNKNOWN = 0
    OPENAI = 1
    ANTHROPIC = 2
    RESPONSES = 3


class IndexState(str, Enum):
    """What may be done with an idx."""

    OK = "ok"
    MISSING = "missing"
    EMPTY = "empty"
    BAD = "bad"  # not an idx at all, or a torn header: rebuild from the data
    FOREIGN = "foreign"  # a newer version: nobody may touch the pair


@dataclass(frozen=True)
class Entry:
    """One idx entry as stored; nothing in it has been checked. `length` counts the line feed."""

    number: int
    offset: int
    length: int
    rtype: int
    fmt: int

    @property
    def end(self) -> int:
        """Offset of the first byte behind the record."""
        return self.offset + self.length

    @property
    def at(self) -> int:
        """Byte of this entry within the idx."""
        return HEADER.size + self.number * ENTRY.size


@dataclass(frozen=True)
class Index:
    """A parsed idx."""

    state: IndexState
    entries: tuple[Entry, ...] = ()
    size: int = 0


def pack_index(entries: list[tuple[int, int, int, int]]) -> bytes:
    """Bytes of an idx for `(offset, length, type, format)` entries; for tests and comparisons."""
    header = HEADER.pack(MAGIC, VERSION, ENTRY.size)
    return header + b"".join(ENTRY.pack(*entry) for entry in entries)


def _check_header(idx: bytes, report: Report) -> IndexState:
    if len(idx) < HEADER.size:
        report.error("idx-header-torn", 0, f"idx has {len(idx)} of the 8 header bytes")
        return IndexState.BAD
    magic, version, entry_size = HEADER.unpack_from(idx)
    if magic != MAGIC:
        report.error(
            "idx-magic", 0, f"bad magic {idx[:4].hex(' ')}, an idx begins with 43 48 44 58"
        )
        return IndexState.BAD
    if version != VERSION:
        report.error(
            "idx-version",
            4,
            f"unknown version {version}: written by a newer or foreign program, left untouched",
        )
        return IndexState.FOREIGN
    if entry_size != ENTRY.size:
        report.error("idx-entry-size", 6, f"entry size {entry_size}, known is {ENTRY.size}")
        return IndexState.BAD
    return IndexState.OK


def parse_index(idx: bytes | None, report: Report) -> Index:
    """Parse an idx. What is wrong with header or length goes to `report`; never raises."""
    if idx is None:
        return Index(IndexState.MISSING)
    if not idx:
        return Index(IndexState.EMPTY)
    state = _check_header(idx, report)
    if state is not IndexState.OK:
        return Index(state, size=len(idx))
    whole, torn = divmod(len(idx) - HEADER.size, ENTRY.size)
    if torn:
        at = HEADER.size + whole * ENTRY.size
        report.error("idx-entry-torn", at, f"idx has {torn} bytes of a broken entry {whole}")
    body = idx[HEADER.size : HEADER.size + whole * ENTRY.size]
    entries = tuple(Entry(i, *fields) for i, fields in enumerate(ENTRY.iter_unpack(body)))
    return Index(IndexState.OK, entries, len(idx))
