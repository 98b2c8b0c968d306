"""Partition tables and MicroPython images: where the file system lies in a chip's flash.

Owns the table's binary format and the rule of the ESP32 port: the first data partition for files,
or, where the table has none, all flash behind the last partition. Reads bytes, touches no port.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from upyclaw_host.boards import CHIPS, MICROPYTHON_MIN, BoardSpec, Chip
from upyclaw_host.errors import UserError

TABLE_OFFSET = 0x8000  # in the flash, on all chips, as MicroPython is built
TABLE_SIZE = 0x1000
_ENTRY = struct.Struct("<2sBBII16sI")
_ENTRY_MAGIC = b"\xaa\x50"
_MD5_MAGIC = b"\xeb\xeb"
_DATA = 1
# Kinds of data partition that hold files: FAT (which MicroPython names and uses for LittleFS),
# SPIFFS, LittleFS.
_FILE_KINDS = (0x81, 0x82, 0x83)
_IMAGE_MAGIC = 0xE9
_VERSION = re.compile(rb"v(\d+)\.(\d+)\.(\d+)(?:-[-.\w]*)? on 20\d\d-\d\d-\d\d")


@dataclass(frozen=True)
class Region:
    """A piece of flash, in bytes from its start."""

    name: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size

    def __str__(self) -> str:
        return f"{self.offset:#x} to {self.end:#x}"


@dataclass(frozen=True)
class Partition(Region):
    """One line of a partition table."""

    kind: int
    subkind: int

    @property
    def holds_files(self) -> bool:
        return self.kind == _DATA and self.subkind in _FILE_KINDS


def parse_table(data: bytes) -> list[Partition]:
    """The table that `data` begins with; empty if it is none, or its checksum is wrong."""
    found: list[Partition] = []
    for at in range(0, min(len(data), 0xC00) - _ENTRY.size + 1, _ENTRY.size):
        entry = data[at : at + _ENTRY.size]
        if entry[:2] == _MD5_MAGIC:
            return found if entry[16:32] == hashlib.md5(data[:at]).digest() else []
        if entry[:2] != _ENTRY_MAGIC:
            break
        _, kind, subkind, offset, size, label, _ = _ENTRY.unpack(entry)
        name = label.rstrip(b"\0").decode("utf-8", "replace")
        found.append(Partition(name, offset, size, kind, subkind))
    return found


def file_system(table: list[Partition], flash_size: int) -> Region | None:
    """Where MicroPython keeps files on a flash of that size; None if nowhere."""
    candidates = [part for part in table if part.holds_files]
    named = [part for part in candidates if part.name == "vfs"]
    if candidates:
        best = (named or candidates)[0]
        return Region(best.name, best.offset, best.size)
    if not table:
        return None
    start = -(-max(part.end for part in table) // 0x1000) * 0x1000
    return Region("vfs", start, flash_size - start) if start < flash_size else None


@dataclass(frozen=True)
class MicroPythonImage:
    """A MicroPython image for a chip, as micropython.org offers it: boot loader, table, app."""

    path: Path
    chip: Chip
    data: bytes
    version: tuple[int, int, int]
    table: list[Partition]

    @property
    def end(self) -> int:
        """First byte of flash behind it."""
        return self.chip.offset + len(self.data)

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def read_image(path: Path, board: BoardSpec) -> MicroPythonImage:
    """The image in the file `path`, if it is one for `board`. Raises UserError."""
    chip = board.chip
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    get = f"download {board.image_file} from {board.image_url}"
    if len(data) < 24 or data[0] != _IMAGE_MAGIC:
        raise UserError(f"{path} is no image for an ESP32 chip: {get}.")
    image_id = struct.unpack_from("<H", data, 12)[0]
    if image_id != chip.image_id:
        other = next((c.title for c in CHIPS.values() if c.image_id == image_id), "another chip")
        raise UserError(f"{path} is for {other}, but {board.name} has an {chip.title}: {get}.")
    table = parse_table(data[TABLE_OFFSET - chip.offset :])
    if not table:
        raise UserError(f"{path} has no partition table: it is not a whole image; {get}.")
    found = _VERSION.search(data)
    if found is None:
        raise UserError(f"{path} is not MicroPython: {get}.")
    version = (int(found[1]), int(found[2]), int(found[3]))
    if version[:2] < MICROPYTHON_MIN:
        least = ".".join(map(str, MICROPYTHON_MIN))
        raise UserError(f"{path} is MicroPython {version[0]}.{version[1]}; take {least}+: {get}.")
    return MicroPythonImage(path, chip, data, version, table)
