"""File systems in a raw dump of a chip's flash, wherever they lie and whatever they are named.

Owns the search: the partition table first, then every block. Reads bytes only (B60).
"""

from __future__ import annotations

from dataclasses import dataclass

from upyclaw_host.install.partitions import (
    TABLE_OFFSET,
    Partition,
    file_system,
    parse_table,
)
from upyclaw_host.source_image import Geometry, find_superblock

_STEP = 0x1000
_SUPERBLOCK_END = 0x2000 + 44


@dataclass(frozen=True)
class FileSystem:
    """A LittleFS in a dump. `offset` in the dump; `name` of its partition, "" if none lists it."""

    name: str
    offset: int
    geometry: Geometry
    missing: int  # bytes that the dump lacks at its end

    @property
    def size(self) -> int:
        return self.geometry.size


@dataclass(frozen=True)
class Dump:
    """What was found. `table_at`: where in the dump its partition table is, None without one."""

    table_at: int | None
    table: list[Partition]
    file_systems: list[FileSystem]


def search(data: bytes) -> Dump:
    """Table and LittleFS file systems of a dump, which may begin at any offset of the flash."""
    table_at, table = _table(data)
    names: dict[int, str] = {}
    if table_at is not None:
        # The table says where things lie in the flash; the dump may begin later than the flash.
        shift = table_at - TABLE_OFFSET
        names = {part.offset + shift: part.name for part in table if part.kind == 1}
        tail = file_system(table, len(data) - shift)
        if tail is not None:
            names.setdefault(tail.offset + shift, tail.name)
    found: list[FileSystem] = []
    end = 0
    for at in range(0, len(data), _STEP):
        if at < end:
            continue
        geometry = None if at + _STEP in names else _starts_here(data, at)
        if geometry is not None:
            missing = max(0, at + geometry.size - len(data))
            found.append(FileSystem(names.get(at, ""), at, geometry, missing))
            end = at + geometry.size
    # The one MicroPython would use comes first.
    found.sort(key=lambda one: (one.name != "vfs", not one.name, one.offset))
    return Dump(table_at, table, found)


def _table(data: bytes) -> tuple[int | None, list[Partition]]:
    places = [TABLE_OFFSET, *range(0, min(len(data), 0x20000), _STEP)]
    for at in places:
        table = parse_table(data[at : at + 0xC00])
        if table:
            return at, table
    return None, []


def _starts_here(data: bytes, at: int) -> Geometry | None:
    """A file system whose first block is at `at`.

    Its superblock pair are the blocks 0 and 1. The word is looked for in both, because one of
    them may be damaged; block 1 of a file system does not begin another one, and a block before a
    whole pair (the end of an app, for one) does not belong to it.
    """
    head = data[at : at + _SUPERBLOCK_END]
    words = [data[at + n * _STEP + 8 : at + n * _STEP + 16] == b"littlefs" for n in range(3)]
    if words[0] or (words[1] and not words[2] and head[:_STEP].strip(b"\xff")):
        return find_superblock(head)
    return None
