"""SOURCE of a command: a directory, a LittleFS image, or a live board, all read-only.

Owns: getting at the files, wherever they are, and saying what could not be had. Writes nothing,
formats nothing (B60); what files mean is the business of `formats`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from upyclaw_host.errors import UserError
from upyclaw_host.formats.catalog import FileSource
from upyclaw_host.formats.findings import Finding, Severity

MAX_FILE = 16 * 1024 * 1024  # larger files in a directory are no board files
_BOARD = ("backup.json", "boot.py")  # what a copy of a board holds besides
_MAX_DEPTH = 6  # folders below a directory that are looked into


class Source(FileSource, Protocol):
    """Files of a board, however they are reached.

    `label` names it in messages; `live` is True for the board's own file system (an image or a
    port), False for copies of files; `findings` collects what could not be read (code
    `short-copy` for a copy that broke off, which is not damage on the device).
    """

    def optional(self, path: str) -> bytes | None:
        """Content of a file that may be missing: None then, and nothing in `findings`."""

    def room(self) -> tuple[int, int] | None:
        """Free and all bytes of the board's flash; None where only files are."""

    def close(self) -> None:
        """Let go of a port or a file."""


class DirectorySource:
    """Files pulled from a board."""

    live = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.label = str(root)
        self.findings: list[Finding] = []

    def files(self) -> dict[str, int]:
        """All files below the directory; links out of it are not followed."""
        found: dict[str, int] = {}
        for folder, below, names in os.walk(self.root):
            if len(Path(folder).relative_to(self.root).parts) >= _MAX_DEPTH:
                below.clear()
            for name in names:
                path = Path(folder, name)
                try:
                    size = path.stat().st_size
                except OSError:
                    continue
                if path.is_file() and size <= MAX_FILE:
                    found[path.relative_to(self.root).as_posix()] = size
        return found

    def read(self, path: str) -> bytes:
        """Content of a file; an unreadable one is empty and told in `findings`."""
        try:
            return (self.root / path).read_bytes()
        except OSError as error:
            text = f"can't be read: {error.strerror}"
            self.findings.append(Finding(path, None, "unreadable", text, Severity.ERROR))
            return b""

    def optional(self, path: str) -> bytes | None:
        """Content of a file, None if there is none."""
        return self.read(path) if path in self.files() else None

    def room(self) -> None:
        """A directory is no flash."""

    def close(self) -> None:
        """Nothing to let go of."""


def pulled(source: FileSource) -> bool:
    """True if files of a board are there at all, even if it has said nothing yet."""
    return any(path.startswith("data/") or path in _BOARD for path in source.files())


def open_source(path: str | Path | None, *, port: str | None = None) -> Source:
    """Open SOURCE read-only; raises UserError with one sentence if it is none.

    `path` is a directory or an image file; with `port` the files of the board at that port.
    """
    if port is not None:
        from upyclaw_host.source_port import PortSource

        return PortSource(port)
    if not path:
        raise UserError("Say where the files are: a directory, an image, or --port PORT.")
    place = Path(path)
    if place.is_dir():
        return DirectorySource(place)
    if not place.exists():
        raise UserError(f"{place} does not exist: give a directory, a LittleFS image, or --port.")
    if not place.is_file():
        raise UserError(f"{place} is neither a directory nor a file: use --port for a live board.")
    from upyclaw_host.source_image import ImageSource

    return ImageSource(place)
