"""Reads what is left of a LittleFS v2 image that the library can't mount: short or damaged ones.

Owns: the on-disk structures of LittleFS (its SPEC.md), read-only and forgiving: a directory that
is gone costs its own files and no others. Never raises on any content, never writes. For whole
images the library is used; this is for what it refuses (B60).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

_CREATE, _DELETE = 0x401, 0x4FF
_FILE, _DIR, _SUPERBLOCK = 0x001, 0x002, 0x0FF
_DIR_STRUCT, _INLINE, _CTZ = 0x200, 0x201, 0x202
_SOFT_TAIL, _HARD_TAIL = 0x600, 0x601
_GONE = 0x3FF  # length of a tag whose attribute was deleted
_NULL = 0xFFFFFFFF
_MAX_DEPTH = 16

Pair = tuple[int, int]


@dataclass
class _Entry:
    """A directory entry as its tags describe it."""

    kind: int = 0
    name: bytes = b""
    struct: int = 0
    data: bytes = b""


@dataclass
class _Block:
    """The valid commits of one metadata block."""

    revision: int
    entries: list[_Entry] = field(default_factory=list)
    hard_tail: Pair | None = None
    valid: bool = False


@dataclass(frozen=True)
class SalvagedFile:
    """A file found. `inline` is its content, or None if it lies in blocks from `head` on."""

    path: str
    size: int
    inline: bytes | None
    head: int = _NULL


def _pair(data: bytes) -> Pair | None:
    if len(data) < 8:
        return None
    first, second = struct.unpack_from("<II", data)
    return (first, second)


def _apply(block: _Block, kind: int, number: int, data: bytes, gone: bool) -> None:
    """Let one tag act on the state of the directory."""
    entries = block.entries
    if kind == _CREATE:
        entries.insert(min(number, len(entries)), _Entry())
    elif kind == _DELETE:
        if number < len(entries):
            del entries[number]
    elif kind == _HARD_TAIL:
        block.hard_tail = _pair(data)
    elif kind == _SOFT_TAIL:
        block.hard_tail = None
    elif kind >> 8 == 0 and number < 0x3FF:
        while len(entries) <= number:
            entries.append(_Entry())
        entries[number].kind, entries[number].name = kind, data
    elif kind >> 8 == 2 and number < len(entries) and not gone:
        entries[number].struct, entries[number].data = kind, data


def _parse_block(raw: bytes) -> _Block | None:
    """State after the last commit whose checksum is right; None if there is none."""
    if len(raw) < 16:
        return None
    state = _Block(struct.unpack_from("<I", raw)[0])
    pending: list[tuple[int, int, bytes, bool]] = []
    crc = zlib.crc32(raw[:4])
    at, before = 4, _NULL
    while at + 4 <= len(raw):
        stored = raw[at : at + 4]
        tag = int.from_bytes(stored, "big") ^ before
        if tag >> 31:
            break
        kind, number, length = (tag >> 20) & 0x7FF, (tag >> 10) & 0x3FF, tag & 0x3FF
        size = 0 if length == _GONE else length
        if at + 4 + size > len(raw):
            break
        data = raw[at + 4 : at + 4 + size]
        crc = zlib.crc32(stored, crc)
        if kind >> 8 == 5 and kind != 0x5FF:
            # zlib's checksum is LittleFS's with its bits turned at the end.
            if size < 4 or struct.unpack_from("<I", data)[0] != crc ^ _NULL:
                break
            for action in pending:
                _apply(state, *action)
            pending.clear()
            state.valid = True
            crc = zlib.crc32(b"")
            before = tag ^ ((kind & 1) << 31)
        else:
            crc = zlib.crc32(data, crc)
            pending.append((kind, number, data, length == _GONE))
            before = tag
        at += 4 + size
    return state if state.valid else None


class Salvage:
    """What can be read of an image. `lost` names the directories that can't."""

    def __init__(self, image: bytes, block_size: int) -> None:
        self._image = image
        self._size = block_size
        self.lost: list[str] = []
        self.files: dict[str, SalvagedFile] = {}
        self._seen: set[Pair] = set()
        self._walk("", (0, 1), 0)

    def _block(self, number: int) -> bytes | None:
        """A whole block, None if the image does not hold it."""
        raw = self._image[number * self._size : (number + 1) * self._size]
        return raw if len(raw) == self._size else None

    def _fetch(self, pair: Pair) -> _Block | None:
        found = []
        for number in pair:
            raw = self._block(number)
            block = None if raw is None else _parse_block(raw)
            if block is not None:
                found.append(block)
        if not found:
            return None
        if len(found) == 2 and (found[1].revision - found[0].revision) & _NULL < 1 << 31:
            return found[1]
        return found[0]

    def _walk(self, folder: str, pair: Pair | None, depth: int) -> None:
        """Take in a directory: a chain of pairs, and the directories in it."""
        below: list[tuple[str, Pair | None]] = []
        while pair is not None:
            if pair in self._seen:
                return
            self._seen.add(pair)
            block = self._fetch(pair)
            if block is None:
                self.lost.append(folder or "/")
                break
            for entry in block.entries:
                name = entry.name.decode("utf-8", "replace")
                path = f"{folder}/{name}" if folder else name
                if entry.kind == _DIR and entry.struct == _DIR_STRUCT:
                    below.append((path, _pair(entry.data)))
                elif entry.kind == _FILE:
                    self._add(path, entry)
            pair = block.hard_tail
        if depth < _MAX_DEPTH:
            for path, inner in below:
                self._walk(path, inner, depth + 1)

    def _add(self, path: str, entry: _Entry) -> None:
        if entry.struct == _INLINE:
            self.files[path] = SalvagedFile(path, len(entry.data), entry.data)
        elif entry.struct == _CTZ and len(entry.data) >= 8:
            head, size = struct.unpack_from("<II", entry.data)
            if size <= 1 << 26:
                self.files[path] = SalvagedFile(path, size, None, head)

    def read(self, path: str) -> bytes:
        """Content of a file up to the first byte that lies in a missing block."""
        file = self.files[path]
        if file.inline is not None:
            return file.inline
        sizes = self._room(file.size)
        blocks = self._reach(len(sizes) - 1, file.head)
        parts = []
        left = file.size
        for index, room in enumerate(sizes):
            raw = self._block(blocks[index]) if index in blocks else None
            if raw is None:
                break
            parts.append(raw[self._size - room :][: min(room, left)])
            left -= len(parts[-1])
        return b"".join(parts)

    def _room(self, size: int) -> list[int]:
        """Data bytes of each block of a file: block n begins with ctz(n)+1 pointers."""
        sizes: list[int] = []
        left = size
        while left > 0:
            index = len(sizes)
            pointers = (index & -index).bit_length() if index else 0
            sizes.append(self._size - 4 * pointers)
            left -= sizes[-1]
        return sizes

    def _reach(self, last: int, head: int) -> dict[int, int]:
        """Index -> block number, as far as the pointers that are left lead."""
        known = {last: head} if last >= 0 else {}
        for index in range(last, 0, -1):
            raw = self._block(known[index]) if index in known else None
            if raw is None:
                continue
            for power in range((index & -index).bit_length()):
                (number,) = struct.unpack_from("<I", raw, 4 * power)
                known.setdefault(index - (1 << power), number)
        return known
