"""What is known of each board: the settings of `boards/NAME/board.toml`, checked and typed.

Owns the reading of these files. Touches no board and no port.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions

from upyclaw_host import resources
from upyclaw_host.errors import UserError


@dataclass(frozen=True)
class BoardSpec:
    """Limits of one board. Sizes in bytes; `heap` in MicroPython's notation ("192k")."""

    name: str
    title: str
    chip: str
    folder: Path
    flash_size: int
    block: int
    progsize: int
    heap: str
    rx_buffer: int
    baud: int
    power_on_text: str
    reset_text: str

    @property
    def blocks(self) -> int:
        """Erase blocks of the file system."""
        return self.flash_size // self.block


def board_names() -> list[str]:
    """Boards that have a description."""
    return sorted(p.parent.name for p in resources.boards_dir().glob("*/board.toml"))


def load_board(name: str) -> BoardSpec:
    """The board called `name`; raises UserError if there is none or its description is broken."""
    path = resources.boards_dir() / name / "board.toml"
    if name not in board_names():
        known = ", ".join(board_names())
        raise UserError(f"There is no board called {name!r}; the boards are: {known}.")
    try:
        data: dict[str, Any] = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap()
        boot = data.get("boot", {})
        return BoardSpec(
            name=name,
            title=str(data["title"]),
            chip=str(data["chip"]),
            folder=path.parent,
            flash_size=int(data["flash"]["size"]),
            block=int(data["flash"]["block"]),
            progsize=int(data["flash"]["progsize"]),
            heap=str(data["heap"]["size"]),
            rx_buffer=int(data["uart"]["rx_buffer"]),
            baud=int(data["uart"]["baud"]),
            power_on_text=str(boot.get("power_on", "")),
            reset_text=str(boot.get("reset", "")),
        )
    except (OSError, tomlkit.exceptions.TOMLKitError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"The board description {path} is not usable ({error!r}).") from None
