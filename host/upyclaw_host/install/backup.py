"""Backup and restore of a live board: every file but the firmware, checked on both sides.

Owns `backup.json` beside the files. A copy that came short is told apart from damage on the board:
the first is a copy whose hash is not the board's, the second a true copy of what `formats` finds
fault with. The board's program stops meanwhile and starts again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import PACKAGE
from upyclaw_host.install import update
from upyclaw_host.install.firmware import board_name
from upyclaw_host.repl import Progress, Repl

LIST = "backup.json"
# Files of a board that hold secrets (B30): who reads a backup should know.
SECRETS = {
    "/config.json": "keys of model servers",
    "/wifi.json": "Wi-Fi passwords",
    "/data/web_tokens": "tokens of the page",
}
_TRIES = 3
_FIRMWARE = ("/boot.py", "/main.py")


@dataclass
class Backup:
    """What a backup holds: path on the board -> (size, SHA-256). `short`: came not whole."""

    folder: Path
    board: str = ""
    time: int = 0
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())

    def local(self, path: str) -> Path:
        """Where the copy of the board's `path` lies. Raises UserError for a path out of it."""
        parts = PurePosixPath(path).parts[1:]
        if not path.startswith("/") or not parts or ".." in parts or "\\" in path:
            raise UserError(f"{self.folder / LIST} names the impossible path {path!r}.")
        return self.folder.joinpath(*parts)


def is_data(path: str) -> bool:
    """True for a file that a backup keeps: not firmware, not an unfinished update."""
    return (
        path not in _FIRMWARE
        and not path.startswith(f"/{PACKAGE}/")
        and not update.is_staging(path)
    )


Started = Callable[[int], None]  # told the bytes to come


def backup(
    repl: Repl, folder: Path, started: Started | None = None, progress: Progress | None = None
) -> Backup:
    """Pull everything into the empty or new `folder`. Files that stay short are in `.short`."""
    _new_folder(folder)
    update.finish_pending(repl)
    there = {path: found for path, found in repl.hashes().items() if is_data(path)}
    result = Backup(folder, board_name(repl), int(time.time()), there)
    if started:
        started(result.size)
    pull(repl, result, progress)
    _write_list(result)
    return result


def _new_folder(folder: Path) -> None:
    """Make `folder`, only for its owner. Raises UserError if something is in it already."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty: name a new directory.")
    except OSError as error:
        raise UserError(f"{folder} can't be used for the copies: {error.strerror}.") from None


def pull(repl: Repl, result: Backup, progress: Progress | None = None) -> None:
    """Copy the files that `result` lists; each is pulled again until its hash is the board's."""
    for path, (_, digest) in sorted(result.files.items()):
        data = b""
        for _ in range(_TRIES):
            data, whole = repl.read(path, progress)
            if whole and hashlib.sha256(data).hexdigest() == digest:
                break
        else:
            result.short.append(path)
        save(result.local(path), data)


def save(target: Path, data: bytes) -> None:
    """Write a file that only its owner can read (SECRETS, and what was said)."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
            f.write(data)
    except OSError as error:
        raise UserError(f"{target} can't be written: {error.strerror}.") from None


def _write_list(result: Backup) -> None:
    files = {
        path: {"size": size, "sha256": digest}
        for path, (size, digest) in sorted(result.files.items())
    }
    document = {"board": result.board, "time": result.time, "files": files, "short": result.short}
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    save(result.folder / LIST, text.encode())


def load(folder: Path) -> Backup:
    """Read a backup and check every file in it. Raises UserError, naming what is not as it was."""
    listed = folder / LIST
    try:
        document = json.loads(listed.read_text("utf-8"))
        files = {
            str(path): (int(entry["size"]), str(entry["sha256"]))
            for path, entry in document["files"].items()
        }
        short = [str(path) for path in document["short"]]
        result = Backup(folder, str(document["board"]), int(document["time"]), files, short)
    except OSError:
        raise UserError(f"{folder} is no backup: there is no {LIST} in it.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{listed} is damaged: the backup can't be checked.") from None
    if short:
        raise UserError(
            f"{folder} is not whole: {short[0]} came short when it was made; make a new backup."
        )
    for path, (size, digest) in files.items():
        try:
            data = result.local(path).read_bytes()
        except OSError as error:
            raise UserError(
                f"{result.local(path)} can't be read: {error.strerror}; nothing was restored."
            ) from None
        if len(data) < size:
            raise UserError(
                f"{result.local(path)} is a short copy ({len(data)} of {size} bytes): "
                "nothing was restored."
            )
        if hashlib.sha256(data).hexdigest() != digest:
            raise UserError(
                f"{result.local(path)} was changed since the backup: nothing was restored."
            )
    return result


def restore(
    repl: Repl, saved: Backup, keep: Path, progress: Progress | None = None
) -> tuple[list[str], list[str]]:
    """Put a backup back, all or nothing: (paths restored, paths of those that were replaced).

    What the board had instead is pulled into the new directory `keep` first: raises UserError
    if that is not empty. Files that the backup does not have stay.
    """
    update.finish_pending(repl)
    there = repl.hashes()
    changed = {path for path, found in saved.files.items() if there.get(path) != found}
    changed = {path for path in changed if is_data(path)}
    if not changed:
        return [], []
    replaced = {path: there[path] for path in changed if path in there}
    if replaced:
        _new_folder(keep)
        kept = Backup(keep, board_name(repl), int(time.time()), replaced)
        pull(repl, kept)
        _write_list(kept)
        if kept.short:
            raise UserError(
                f"{kept.short[0]} on the board at {repl.port} could not be kept before it would "
                "be replaced: nothing was restored. Try again with another cable."
            )
    files = {path: saved.local(path).read_bytes() for path in changed}
    update.put(repl, files, progress=progress)
    return sorted(changed), sorted(replaced)
