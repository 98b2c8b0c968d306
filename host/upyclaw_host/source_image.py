"""A LittleFS v2 image as a SOURCE: opened in RAM, never written, never formatted (B60).

Owns: finding the superblock, telling a short copy from damage, and reading as much as is there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from littlefs import LFSConfig, LFSStat, LittleFS, LittleFSError, UserContext

from upyclaw_host.errors import UserError
from upyclaw_host.formats.findings import Finding, Severity
from upyclaw_host.salvage import Salvage

_MAGIC = b"littlefs"
_BLOCK_SIZES = (4096, 512, 1024, 2048, 8192, 16384, 32768, 65536)
_READ_ONLY = -30  # LFS has no such code; any negative one stops it
_CHUNK = 1024  # bytes read at a time: what lies before a missing block is kept up to this
MAX_IMAGE = 128 * 1024 * 1024


@dataclass(frozen=True)
class Geometry:
    """Size of the file system as its superblock tells it."""

    block_size: int
    block_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole file system."""
        return self.block_size * self.block_count


def find_superblock(image: bytes) -> Geometry | None:
    """Geometry of a LittleFS v2 image, from either block of the first pair; None if it is none."""
    for start in (0, *_BLOCK_SIZES):
        # revision, tag, "littlefs", tag, then the inline structure: version, sizes, limits
        if image[start + 8 : start + 16] != _MAGIC or len(image) < start + 44:
            continue
        version, block_size, block_count = struct.unpack_from("<III", image, start + 20)
        if version >> 16 == 2 and block_size in _BLOCK_SIZES and 2 <= block_count < 1 << 20:
            return Geometry(block_size, block_count)
    return None


def what_is_it(image: bytes) -> str:
    """What a file that is no LittleFS image looks like, as the middle of a sentence."""
    if not image:
        return "is empty"
    if image[510:512] == b"\x55\xaa" and (
        b"FAT" in image[36:90] or image[:1] in (b"\xeb", b"\xe9")
    ):
        return (
            "holds a FAT file system, not LittleFS: copy its files into a directory and give that"
        )
    if image.find(_MAGIC) == 8:
        return "begins like a LittleFS image, but its superblock is damaged"
    if not image.strip(b"\xff"):
        return "is erased flash (only FF bytes): nothing was ever written to it"
    return "is no LittleFS image"


def _from_dump(path: Path, image: bytes) -> tuple[bytes, Geometry]:
    """The file system inside a dump of a whole flash. Raises UserError if there is none."""
    from upyclaw_host.install.dump import search

    found = search(image).file_systems
    if not found:
        raise UserError(f"{path} {what_is_it(image)}.")
    first = found[0]
    return image[first.offset : first.offset + first.size], first.geometry


def _consistent(image: bytes, geometry: Geometry) -> bytes:
    """The image as LittleFS leaves it after its first write: a rename that a power cut ended in
    the middle is finished. Until then it hides a neighbour of the renamed file. In RAM only."""
    blocks = UserContext(buffer=bytearray(image))
    fs = _file_system(blocks, geometry)
    try:
        fs.mount()
        # Nothing has this name; the attempt alone makes LittleFS put its state right.
        fs.remove("/upyclaw.nothing")
    except FileNotFoundError:
        return bytes(blocks.buffer)
    except (LittleFSError, OSError):
        pass
    return image


def _file_system(context: UserContext, geometry: Geometry) -> LittleFS:
    return LittleFS(
        context=context,
        mount=False,
        block_size=geometry.block_size,
        block_count=0,  # the superblock's
        read_size=32,
        prog_size=32,
        cache_size=256,
        lookahead_size=32,
    )


class _Blocks(UserContext):  # type: ignore[misc]  # the library is not followed by mypy
    """Blocks in RAM that can't be changed; counts reads of blocks the image lacks."""

    def __init__(self, image: bytes) -> None:
        super().__init__(buffer=bytearray(image))
        self.missed = 0

    def read(self, cfg: LFSConfig, block: int, off: int, size: int) -> bytearray:
        """Bytes of a block; FF where the image ends before it."""
        start = block * cfg.block_size + off
        data: bytearray = self.buffer[start : start + size]
        if len(data) < size:
            self.missed += 1
            data += b"\xff" * (size - len(data))
        return data

    def prog(self, cfg: LFSConfig, block: int, off: int, data: bytes) -> int:
        """Refused."""
        return _READ_ONLY

    def erase(self, cfg: LFSConfig, block: int) -> int:
        """Refused."""
        return _READ_ONLY


class ImageSource:
    """Files of a LittleFS image."""

    live = True

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self.findings: list[Finding] = []
        try:
            if path.stat().st_size > MAX_IMAGE:
                raise UserError(f"{path} is larger than any flash: not a LittleFS image.")
            image = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path} can't be read: {error.strerror}.")
        geometry = find_superblock(image)
        if geometry is None:
            image, geometry = _from_dump(path, image)
        self.geometry = geometry
        self._blocks = _Blocks(image)
        lacking = geometry.size - len(image)
        self._short = lacking > 0
        if self._short:
            blocks = -(-lacking // geometry.block_size)
            text = (
                f"short copy: the last {blocks} of {geometry.block_count} blocks are missing "
                "(read the flash again; this is not damage on the board)"
            )
            self._tell(self.label, len(image), "short-copy", text, Severity.WARNING)
        else:
            self._blocks = _Blocks(_consistent(image, geometry))
        self._fs, self._salvage = self._mount(), None
        if self._fs is None:
            self._salvage = self._salvaged(image)

    def _tell(
        self, file: str, offset: int | None, code: str, message: str, severity: Severity
    ) -> None:
        finding = Finding(file, offset, code, message, severity)
        if finding not in self.findings:
            self.findings.append(finding)

    def _mount(self) -> LittleFS | None:
        """The file system by the library; None if it can't take it."""
        fs = _file_system(self._blocks, self.geometry)
        try:
            fs.mount()
        except LittleFSError:
            return None
        return fs

    def _salvaged(self, image: bytes) -> Salvage:
        """What is left of an image the library refuses."""
        found = Salvage(image, self.geometry.block_size)
        if not found.files:
            what = "is a short copy" if self._short else "is damaged"
            raise UserError(f"{self.label} {what}: no file of its LittleFS can be read.")
        for folder in found.lost:
            self._unreadable(folder, 0, "the directory is damaged")
        return found

    def files(self) -> dict[str, int]:
        """All files of the image; a directory that can't be read is told in `findings`."""
        if self._salvage is not None:
            return {path: file.size for path, file in self._salvage.files.items()}
        found: dict[str, int] = {}
        self._walk("", found, 0)
        return found

    def _walk(self, folder: str, found: dict[str, int], depth: int) -> None:
        if depth > 16 or self._fs is None:
            return
        try:
            for entry in self._fs.scandir("/" + folder):
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.type == LFSStat.TYPE_DIR:
                    self._walk(path, found, depth + 1)
                else:
                    found[path] = entry.size
        except (LittleFSError, UnicodeDecodeError) as error:
            self._unreadable(folder or "/", 0, str(error))

    def _unreadable(self, path: str, at: int, why: str) -> None:
        if self._short:
            text = f"short copy: from byte {at} on it lies in the missing blocks of the image"
            self._tell(path, at, "short-copy", text, Severity.ERROR)
        else:
            self._tell(path, at, "image-damaged", f"can't be read: {why}", Severity.ERROR)

    def read(self, path: str) -> bytes:
        """Content of a file, up to the first byte that lies in a missing or damaged block."""
        if self._salvage is not None:
            data = self._salvage.read(path)
            if len(data) < self._salvage.files[path].size:
                self._unreadable(path, len(data), "its blocks are damaged")
            return data
        return self._read_whole(path)

    def _read_whole(self, path: str) -> bytes:
        assert self._fs is not None
        parts: list[bytes] = []
        before = self._blocks.missed
        done = 0
        try:
            with self._fs.open("/" + path, "rb", buffering=0) as file:
                while True:
                    part = file.read(_CHUNK)
                    if self._blocks.missed != before:
                        raise LittleFSError(-5)
                    if not part:
                        break
                    parts.append(part)
                    done += len(part)
        except (LittleFSError, OSError) as error:
            self._unreadable(path, done, str(error))
        return b"".join(parts)

    def optional(self, path: str) -> bytes | None:
        """Content of a file, None if there is none."""
        return self.read(path) if path in self.files() else None

    def room(self) -> tuple[int, int] | None:
        """Free and all bytes; None if LittleFS cannot count them."""
        try:
            used = self._fs.used_block_count if self._fs is not None else None
        except LittleFSError:
            used = None
        if used is None:
            return None
        block = self.geometry.block_size
        return (self.geometry.block_count - int(used)) * block, self.geometry.size

    def close(self) -> None:
        """Nothing to let go of."""
