"""The firmware on a live board: what differs from this version, and putting that in place.

Owns which files an update may replace and remove: those of the firmware itself. A boot.py or
main.py that someone wrote is kept beside.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from upyclaw_host.flash.firmware import BOARD_FILE, LIST_FILE, PACKAGE, parse_file_list
from upyclaw_host.install import update
from upyclaw_host.repl import Progress, Repl

_STARTERS = {"/boot.py": b"upyclaw", "/main.py": b"upyclaw.app"}


@dataclass
class Changes:
    """What an installation does. `kept`: old path -> where a file of the user's own goes."""

    files: dict[str, bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes to send."""
        return sum(map(len, self.files.values()))


def changes(repl: Repl, wanted: Mapping[str, bytes], *, check: bool = False) -> Changes:
    """What the board lacks of `wanted`, by the list of hashes that it keeps.

    `check`: do not trust that list, have the board hash its files. A list is trusted for a file
    whose size is right.
    """
    recorded = parse_file_list(repl.text(LIST_FILE) or b"")
    sizes = repl.files(f"/{PACKAGE}")
    if check:
        recorded = {path: digest for path, (_, digest) in repl.hashes(f"/{PACKAGE}").items()}
    result = Changes()
    for path, data in wanted.items():
        if path in _STARTERS or path == LIST_FILE:
            old = repl.text(path)
            if old != data:
                result.files[path] = data
                _keep(result, path, old)
        elif sizes.get(path) != len(data) or recorded.get(path) != _sha(data):
            result.files[path] = data
    # A stale .py would win over the new .mpy, so nothing else stays in the firmware's own folder.
    result.gone = {path for path in {*sizes, *recorded} if path not in wanted}
    result.gone &= {*sizes} | {path for path in recorded if not path.startswith(f"/{PACKAGE}/")}
    return result


def _keep(result: Changes, path: str, old: bytes | None) -> None:
    """A start file that someone else wrote, and that does something, is kept under a new name."""
    mark = _STARTERS.get(path)
    if old is None or mark is None or mark in old:
        return
    lines = [line.strip() for line in old.splitlines()]
    if any(line and not line.startswith(b"#") for line in lines):
        saved = path.replace(".py", ".old.py")
        result.kept[path] = saved
        result.files[saved] = old


def apply(
    repl: Repl, found: Changes, wanted: Mapping[str, bytes], progress: Progress | None = None
) -> None:
    """Put the changes in place, all or nothing, whenever the cable is pulled."""
    update.put(repl, found.files, found.gone, boot=wanted["/boot.py"], progress=progress)


def board_name(repl: Repl) -> str:
    """The board that the firmware there was installed for; "" if there is none."""
    return (repl.text(BOARD_FILE) or b"").decode("utf-8", "replace").strip()


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
