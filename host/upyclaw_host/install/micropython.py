"""MicroPython on a chip: is it there, is it new enough, write it without touching the memory.

Owns the decision what may be written to a chip's flash (B62). A file system stays where it is and
as it is, unless the person said `--erase-memory`.
"""

from __future__ import annotations

from dataclasses import dataclass

from upyclaw_host.boards import MICROPYTHON_MIN, BoardSpec
from upyclaw_host.errors import UserError
from upyclaw_host.install.esptool import EspTool, Found, Share
from upyclaw_host.install.partitions import (
    TABLE_OFFSET,
    TABLE_SIZE,
    MicroPythonImage,
    Region,
    file_system,
    parse_table,
)

_SUPERBLOCKS = 0x2000  # LittleFS keeps its superblock in the first two blocks
_MAGIC = b"littlefs"


def need_image(board: BoardSpec, why: str) -> UserError:
    """What to do when an image has to be written, with the exact one to download."""
    return UserError(
        f"{why}: download {board.image_url} and run this again with --firmware {board.image_file}."
    )


def check_version(facts: dict[str, str], board: BoardSpec, port: str) -> str:
    """The version there, if the MicroPython that answered will do. Raises UserError."""
    version = facts.get("version", "")
    numbers = tuple(int(n) for n in version.split(".") if n.isdigit())
    machine = facts.get("machine", "")
    if not board.simulated and machine and not machine.endswith(board.chip.machine):
        raise UserError(
            f"The board at {port} is {machine}, but {board.name} has an {board.chip.title}: "
            "name the right --board; nothing was changed."
        )
    if numbers[:2] < MICROPYTHON_MIN:
        raise need_image(board, f"The board at {port} has MicroPython {version}, which is too old")
    return version


@dataclass(frozen=True)
class Layout:
    """What a chip is and where its memory is. `memory`: a LittleFS is there."""

    found: Found
    flash_size: int
    files: Region | None
    memory: bool


def look(tool: EspTool, board: BoardSpec) -> Layout:
    """Identify the chip and find its file system. Raises UserError for a wrong chip or flash."""
    found = tool.identify()
    if found.chip != board.chip:
        raise UserError(
            f"The chip at {tool.port} is an {found.title}, but {board.name} has an "
            f"{board.chip.title}: name the right --board; nothing was changed."
        )
    size = found.flash_size or board.flash_sizes[0]
    if size < board.flash_sizes[0]:
        raise UserError(
            f"The chip at {tool.port} has {size >> 20} MB of flash, but {board.name} has at least "
            f"{board.flash_sizes[0] >> 20} MB: name the right --board; nothing was changed."
        )
    table = parse_table(tool.read(TABLE_OFFSET, TABLE_SIZE))
    # Without a table, look where this board's memory would be all the same.
    files = (
        file_system(table, size)
        if table
        else Region("vfs", board.vfs_offset, size - board.vfs_offset)
    )
    memory = files is not None and _MAGIC in tool.read(files.offset, _SUPERBLOCKS)
    return Layout(found, size, files, memory)


def check_memory(layout: Layout, image: MicroPythonImage) -> None:
    """Raise UserError if writing `image` would delete or hide the files on the chip."""
    if not layout.memory or layout.files is None:
        return
    old, new = layout.files, file_system(image.table, layout.flash_size)
    advice = (
        "make a backup with `upyclaw backup` and use --erase-memory, then `upyclaw restore`, or "
        "take another image; nothing was changed."
    )
    if image.end > old.offset:
        raise UserError(
            f"{image.path} reaches to {image.end:#x} and would overwrite the board's memory at "
            f"{old.offset:#x}: {advice}"
        )
    if new is None or (new.offset, new.size) != (old.offset, old.size):
        raise UserError(
            f"{image.path} keeps files at {new or 'no place'}, but the board's memory lies at "
            f"{old}, where it would not be found any more: {advice}"
        )


def write(
    tool: EspTool,
    image: MicroPythonImage,
    layout: Layout,
    *,
    erase_memory: bool,
    share: Share | None = None,
) -> None:
    """Write the image; with `erase_memory` an empty file system is made by its first start."""
    if not erase_memory:
        check_memory(layout, image)
    else:
        regions = {layout.files, file_system(image.table, layout.flash_size)}
        for region in regions:
            if region is not None:
                tool.erase(region.offset, region.size)
    tool.write(image.chip, image.path, share)
