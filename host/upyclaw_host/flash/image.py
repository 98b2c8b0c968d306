"""A board's file system as a LittleFS v2 image file: open, read, and change with care.

Owns the geometry, the lock and all access to image files. An image that exists is never formatted
(B60), and reading cannot change it: a reader works on a copy in memory. A writer holds a lock, so
that no board runs on the image meanwhile. Knows nothing of what the files mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from littlefs import LittleFS, LittleFSError, UserContext, UserContextFile

from upyclaw_host.errors import UserError

BLOCK_SIZE = 4096
DEFAULT_BLOCKS = 512
# MicroPython mounts with progsize 64: LittleFS then caches 256 bytes and keeps files up to that
# size inside the directory. Readers and writers on the PC do the same, so that both sides agree.
PROG_SIZE = 64
CACHE_SIZE = 4 * PROG_SIZE
LOOKAHEAD_SIZE = 32
BLOCK_CYCLES = 100
_MAGIC = b"littlefs"


@dataclass(frozen=True)
class Entry:
    """One file or folder. `path` starts with `/`; `size` in bytes, 0 for a folder."""

    path: str
    is_dir: bool
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class _ReadOnlyContext(UserContext):  # type: ignore[misc]
    """A copy of the image that refuses changes, should LittleFS ever want one."""

    def prog(self, cfg: Any, block: int, off: int, data: bytes) -> int:
        return -errno.EROFS

    def erase(self, cfg: Any, block: int) -> int:
        return -errno.EROFS


class _FileContext(UserContextFile):  # type: ignore[misc]
    """The image file itself, unbuffered: what LittleFS wrote is in the file, in its order."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._fh = path.open("r+b", buffering=0)
        self.in_size = path.stat().st_size

    def sync(self, cfg: Any) -> int:
        return 0


def _geometry(path: Path, head: bytes, size: int) -> int:
    """Number of blocks; raises UserError for anything that is not an image of ours."""
    if size == 0 or size % BLOCK_SIZE:
        raise UserError(
            f"{path} is not a flash image: {size} bytes are no multiple of {BLOCK_SIZE}."
        )
    if _MAGIC not in (head[8:16], head[BLOCK_SIZE + 8 : BLOCK_SIZE + 16]):
        raise UserError(f"{path} holds no LittleFS file system; nothing was changed.")
    return size // BLOCK_SIZE


def _filesystem(context: UserContext, blocks: int) -> LittleFS:
    # mount=False: the library's default is to format what it cannot mount.
    return LittleFS(
        context=context,
        mount=False,
        block_size=BLOCK_SIZE,
        block_count=blocks,
        read_size=PROG_SIZE,
        prog_size=PROG_SIZE,
        cache_size=CACHE_SIZE,
        lookahead_size=LOOKAHEAD_SIZE,
        block_cycles=BLOCK_CYCLES,
    )


def _absolute(path: str) -> str:
    return "/" + path.strip("/")


class Image:
    """An opened image: `listdir`, `stat`, `read`, `walk`; with `write=True` also changes.

    Use `open_image`. Errors are UserError and name the image and the path in it.
    """

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self._lock: int | None = None
        self._context: UserContext | None = None
        try:
            if write:
                self._lock = lock_image(path)
                with path.open("rb") as handle:
                    head = handle.read(2 * BLOCK_SIZE)
                self.block_count = _geometry(path, head, path.stat().st_size)
                self._context = _FileContext(path)
            else:
                data = path.read_bytes()
                self.block_count = _geometry(path, data[: 2 * BLOCK_SIZE], len(data))
                self._context = _ReadOnlyContext(buffer=bytearray(data))
            self._fs = _filesystem(self._context, self.block_count)
            self._fs.mount()
        except OSError as error:
            self.close()
            raise UserError(f"Cannot open the flash image {path}: {_reason(error)}.") from None
        except LittleFSError as error:
            self.close()
            raise UserError(
                f"The file system in {path} cannot be read ({error}); nothing was changed."
            ) from None
        except UserError:
            self.close()
            raise

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and the lock. May be called twice."""
        if isinstance(self._context, _FileContext):
            self._context.close()
        self._context = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (LittleFSError, OSError) as error:
            if _errno(error) == errno.ENOENT:
                raise UserError(f"There is no {_absolute(path)} in {self.path}.") from None
            raise UserError(f"{_absolute(path)} in {self.path}: {_reason(error)}.") from None

    def listdir(self, path: str = "/") -> list[str]:
        """Names in the folder `path`, sorted."""
        with self._errors(path):
            return sorted(str(name) for name in self._fs.listdir(_absolute(path)))

    def stat(self, path: str) -> Entry:
        """Kind and size of `path`."""
        with self._errors(path):
            found = self._fs.stat(_absolute(path))
            return Entry(_absolute(path), found.type == 2, found.size if found.type == 1 else 0)

    def exists(self, path: str) -> bool:
        """True for a file or folder."""
        try:
            self._fs.stat(_absolute(path))
        except (LittleFSError, OSError):
            return False
        return True

    def read(self, path: str) -> bytes:
        """The whole content of the file `path`."""
        with self._errors(path), self._fs.open(_absolute(path), "rb") as handle:
            return bytes(handle.read())

    def walk(self, path: str = "/") -> Iterator[Entry]:
        """Every file and folder below `path`, folders before what they hold, sorted."""
        for name in self.listdir(path):
            entry = self.stat(_absolute(path).rstrip("/") + "/" + name)
            yield entry
            if entry.is_dir:
                yield from self.walk(entry.path)

    @property
    def used_blocks(self) -> int:
        """Blocks that hold something."""
        with self._errors("/"):
            return int(self._fs.used_block_count)

    def write(self, path: str, data: bytes) -> None:
        """Replace the file `path`: it holds `data` then or, on an error, what it held before."""
        target = _absolute(path)
        temporary = target + ".new"
        with self._errors(path):
            folder = target.rpartition("/")[0]
            if folder:
                self._fs.makedirs(folder, exist_ok=True)
            try:
                with self._fs.open(temporary, "wb") as handle:
                    handle.write(data)
                self._fs.rename(temporary, target)
            except (LittleFSError, OSError):
                with contextlib.suppress(LittleFSError, OSError):
                    self._fs.remove(temporary)
                raise

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder."""
        with self._errors(path):
            self._fs.remove(_absolute(path))


def _errno(error: Exception) -> int:
    """The positive error number of an OSError or a LittleFSError, 0 if it has none."""
    return int(getattr(error, "errno", None) or -getattr(error, "code", 0))


def _reason(error: Exception) -> str:
    code = _errno(error)
    if code == errno.ENOSPC:
        return "the flash is full"
    if isinstance(error, IsADirectoryError) or code == errno.EISDIR:
        return "this is a folder"
    return os.strerror(code) if code else str(error)


def lock_image(path: Path) -> int:
    """Take the only right to change `path`; returns a descriptor that keeps it while open."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UserError(
            f"The flash image {path} is in use by a running board; stop that one first."
        ) from None
    return descriptor


def open_image(path: Path | str, *, write: bool = False) -> Image:
    """Open an existing image; without `write` a snapshot in memory that cannot change the file."""
    return Image(Path(path), write=write)


def create_image(path: Path | str, blocks: int = DEFAULT_BLOCKS) -> None:
    """Make an empty file system of `blocks` blocks in a new file; one that exists stays."""
    target = Path(path)
    context = UserContext(buffsize=blocks * BLOCK_SIZE)
    _filesystem(context, blocks).format()
    try:
        with target.open("xb") as handle:
            handle.write(context.buffer)
    except FileExistsError:
        raise UserError(f"{target} exists already; it was left as it is.") from None
    except OSError as error:
        raise UserError(f"Cannot write the flash image {target}: {error.strerror}.") from None
