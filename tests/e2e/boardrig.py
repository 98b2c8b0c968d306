"""Boards for tests of install and backup: a small stand-in firmware in two versions."""

from __future__ import annotations

from pathlib import Path

from upyclaw_host.flash.firmware import BOARD_FILE, LIST_FILE, file_list
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.repl import Repl

REPOSITORY = Path(__file__).resolve().parents[2]
# Both halves say which version they are; a board that starts a mixture shows it.
_APP = b"""
import time
from upyclaw import left, right
from upyclaw.deep import inner

def main():
    while True:
        time.sleep_ms(20)
"""


def small_firmware(version: str) -> dict[str, bytes]:
    """Path on the board -> content of a firmware of a few files.

    `old` has a file that `new` lacks and the other way round.
    """
    half = f'VERSION = "{version}"\nFILLER = b"{version[0] * 1500}"\n'.encode()
    files = {
        "/boot.py": (REPOSITORY / "firmware" / "boot.py").read_bytes(),
        "/main.py": (REPOSITORY / "firmware" / "main.py").read_bytes(),
        "/upyclaw/__init__.py": b"",
        "/upyclaw/app.py": _APP,
        "/upyclaw/left.py": half,
        "/upyclaw/right.py": half,
        "/upyclaw/deep/__init__.py": b"",
        "/upyclaw/deep/inner.py": f'VERSION = "{version}"\n'.encode(),
        f"/upyclaw/{version}/only.txt": version.encode(),
        BOARD_FILE: b"sim",
    }
    return {**files, LIST_FILE: file_list(files)}


def make_image(path: Path, files: dict[str, bytes]) -> None:
    """A flash image with these files."""
    create_image(path)
    with open_image(path, write=True) as image:
        for name, data in files.items():
            image.write(name, data)


def files_on(path: Path) -> dict[str, bytes]:
    """Every file on a flash image."""
    with open_image(path) as image:
        return {e.path: image.read(e.path) for e in image.walk() if not e.is_dir}


def running_version(port: str) -> str:
    """What the board at `port` has started, as the modules in its heap say; leaves it stopped."""
    with Repl(port) as repl:
        return repl.run(
            "from upyclaw import left, right\nfrom upyclaw.deep import inner\n"
            "print(left.VERSION, right.VERSION, inner.VERSION)"
        ).strip()
