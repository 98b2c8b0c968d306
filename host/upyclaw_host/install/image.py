"""One file that flashes MicroPython and upyclaw: a stock image with a ready file system behind it.

Owns the merge. Reads and writes files on the PC only.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from upyclaw_host.boards import BoardSpec
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import build_flash
from upyclaw_host.flash.image import BLOCK_SIZE, open_image
from upyclaw_host.install import settings
from upyclaw_host.install.partitions import MicroPythonImage, Region, file_system


@dataclass(frozen=True)
class Merged:
    """What was made: `region` is where the file system lies in flash."""

    path: Path
    size: int
    region: Region
    command: str


def merge(board: BoardSpec, base: MicroPythonImage, out: Path, config: bytes | None) -> Merged:
    """Write `out`: `base`, then FF up to its file system, then that with the firmware on it.

    Raises UserError: `out` exists, no room for files in the image's partition table.
    """
    flash = board.flash_sizes[0]
    region = file_system(base.table, flash)
    if region is None or region.end > flash or base.end > region.offset:
        raise UserError(
            f"{base.path} leaves no room for files on the {flash >> 20} MB flash of {board.name}: "
            f"take {board.image_file}."
        )
    with tempfile.TemporaryDirectory(prefix="upyclaw-") as folder:
        files = Path(folder) / "files.img"
        build_flash(files, blocks=region.size // BLOCK_SIZE, board=board)
        if config is not None:
            with open_image(files, write=True) as image:
                image.write(settings.CONFIG, config)
        partition = files.read_bytes()
    gap = b"\xff" * (region.offset - base.end)
    try:
        # 0600: the settings in it may hold a key (B30).
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            for part in (base.data, gap, partition):
                handle.write(part)
    except FileExistsError:
        raise UserError(f"{out} exists already; it was left as it is.") from None
    except OSError as error:
        raise UserError(f"{out} can't be written: {error.strerror}.") from None
    chip = board.chip
    command = f"esptool --chip {chip.name} write-flash {chip.offset:#x} {out}"
    return Merged(out, out.stat().st_size, region, command)
