"""What is known of each board: the settings of `boards/NAME/board.toml`, checked and typed.

Owns the reading of these files, the table of chips, and the limits that follow from both. Touches
no board and no port. A new board is a new folder; only a new kind of chip is a line here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions

from upyclaw_host import resources
from upyclaw_host.errors import UserError

# Oldest MicroPython that will do: (major, minor).
MICROPYTHON_MIN = (1, 24)
# Data bytes of a session before compaction (spec/SPEC-session.md §9), where the flash is large.
SESSION_LIMIT = 153600
# Flash that sessions leave to everything else: long-term memory, profiles, chat maps, an update
# of the firmware that waits to be put in place, and the blocks LittleFS moves data with.
# Every file takes whole blocks, so the firmware needs three times its bytes; a test compares.
MEMORY_RESERVE = 128 * 1024
UPDATE_RESERVE = 640 * 1024
FIRMWARE_RESERVE = 640 * 1024


@dataclass(frozen=True)
class Chip:
    """A kind of chip. `offset`: where its ROM looks for the image in flash (B62); `arch`:
    mpy-cross's name for its instructions; `image_id`: how image headers name it; `machine`: how
    MicroPython does, at the end of `os.uname().machine`."""

    name: str
    title: str
    offset: int
    image_id: int
    arch: str
    machine: str


def _chip(name: str, title: str, offset: int, image_id: int, arch: str) -> Chip:
    return Chip(name, title, offset, image_id, arch, title.replace("-", ""))


# Offsets and ids as esptool has them; a test compares.
CHIPS = {
    chip.name: chip
    for chip in (
        _chip("esp32", "ESP32", 0x1000, 0, "xtensawin"),
        _chip("esp32s2", "ESP32-S2", 0x1000, 2, "xtensawin"),
        _chip("esp32s3", "ESP32-S3", 0x0, 9, "xtensawin"),
        _chip("esp32c2", "ESP32-C2", 0x0, 12, "rv32imc"),
        _chip("esp32c3", "ESP32-C3", 0x0, 5, "rv32imc"),
        _chip("esp32c5", "ESP32-C5", 0x2000, 23, "rv32imc"),
        _chip("esp32c6", "ESP32-C6", 0x0, 13, "rv32imc"),
        _chip("esp32p4", "ESP32-P4", 0x2000, 18, "rv32imc"),
    )
}


@dataclass(frozen=True)
class BoardSpec:
    """One board. Sizes in bytes; `heap` in MicroPython's notation ("192k").

    `flash_sizes`: sizes of flash it is sold with, smallest first. `usb`: "bridge" (a USB-to-UART
    chip), "native" (USB Serial/JTAG in the chip itself) or "simulated".
    """

    name: str
    title: str
    folder: Path
    chip: Chip
    flash_sizes: tuple[int, ...]
    block: int
    progsize: int
    vfs_offset: int
    heap: str
    psram: int
    usb: str
    baud: int
    flash_baud: int
    rx_buffer: int
    resets_on_open: bool
    pins: tuple[int, ...]
    input_pins: tuple[int, ...]
    led: int
    led_kind: str
    image: str
    image_version: str
    image_date: str
    power_on_text: str
    reset_text: str

    @property
    def simulated(self) -> bool:
        """True for the board that runs on the PC."""
        return self.usb == "simulated"

    @property
    def vfs_size(self) -> int:
        """Bytes of the file system on the smallest flash: all that the firmware image leaves."""
        return self.flash_sizes[0] - self.vfs_offset

    @property
    def blocks(self) -> int:
        """Erase blocks of the file system."""
        return self.vfs_size // self.block

    @property
    def memory_space(self) -> int:
        """Bytes of flash for sessions and long-term memory, beside the firmware and an update."""
        return self.vfs_size - FIRMWARE_RESERVE - UPDATE_RESERVE

    @property
    def session_limit(self) -> int:
        """Largest data file of a session: compaction writes it a second time beside the first."""
        half = (self.memory_space - MEMORY_RESERVE) // 2
        return min(SESSION_LIMIT, half // self.block * self.block)

    @property
    def full_sessions(self) -> int:
        """Sessions of the largest size that fit, with the room to compact one of them."""
        return max(0, (self.memory_space - MEMORY_RESERVE) // self.session_limit - 1)

    @property
    def page_fits(self) -> bool:
        """Whether the page on the board fits beside all else: only with PSRAM, as measured.

        `upyclaw bench ram`; the board decides by the heap that is free at start.
        """
        return self.psram > 0

    @property
    def image_file(self) -> str:
        """Name of the MicroPython image to download; "" for the simulated board."""
        return f"{self.image}-{self.image_date}-{self.image_version}.bin" if self.image else ""

    @property
    def image_url(self) -> str:
        """Address of that image."""
        return f"https://micropython.org/resources/firmware/{self.image_file}"

    def as_json(self) -> dict[str, Any]:
        """Everything, with the derived limits, for `upyclaw boards --json`."""
        return {
            "name": self.name,
            "title": self.title,
            "chip": self.chip.name,
            "image_offset": self.chip.offset,
            "arch": self.chip.arch,
            "flash_sizes": list(self.flash_sizes),
            "vfs": {"offset": self.vfs_offset, "size": self.vfs_size, "blocks": self.blocks},
            "heap": self.heap,
            "psram": self.psram,
            "usb": {"kind": self.usb, "baud": self.baud, "resets_on_open": self.resets_on_open},
            "pins": list(self.pins),
            "input_pins": list(self.input_pins),
            "led": {"pin": self.led, "kind": self.led_kind},
            "image": self.image_file,
            "limits": {
                "memory_space": self.memory_space,
                "session": self.session_limit,
                "full_sessions": self.full_sessions,
                "page": self.page_fits,
            },
        }


def board_names() -> list[str]:
    """Boards that have a description."""
    return sorted(p.parent.name for p in resources.boards_dir().glob("*/board.toml"))


def load_board(name: str) -> BoardSpec:
    """The board called `name`; raises UserError if there is none or its description is broken."""
    if name not in board_names():
        known = ", ".join(board_names())
        raise UserError(f"There is no board called {name!r}; the boards are: {known}.")
    return read_board(resources.boards_dir() / name / "board.toml")


# -- the schema -------------------------------------------------------------------------------

_Check = Callable[[Any], Any]  # the value as it goes on; raises ValueError with what it must be


def _whole(low: int, high: int, step: int = 1) -> _Check:
    def check(value: Any) -> int:
        good = isinstance(value, int) and not isinstance(value, bool)
        if not good or not low <= value <= high or value % step:
            what = f", a multiple of {step}" if step > 1 else ""
            raise ValueError(f"a whole number from {low} to {high}{what}")
        return int(value)

    return check


def _list_of(item: _Check, least: int = 0) -> _Check:
    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < least:
            raise ValueError("a list" + (f" of at least {least} entries" if least else ""))
        return tuple(item(entry) for entry in value)

    return check


def _one_of(*choices: str) -> _Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return str(value)

    return check


def _text(pattern: str, meaning: str) -> _Check:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.DOTALL):
            raise ValueError(meaning)
        return value

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


_MB = 1024 * 1024
_PIN = _whole(0, 48)
# key in the file -> (field of BoardSpec, check, default; ... where it must be there)
_SCHEMA: dict[str, tuple[str, _Check, Any]] = {
    "name": ("name", _text(r"[a-z0-9_]+", "a word of small letters, digits and _"), ...),
    "title": ("title", _text(r".+", "a text"), ...),
    "chip": ("chip", _one_of(*CHIPS), ...),
    "flash.sizes": ("flash_sizes", _list_of(_whole(2 * _MB, 32 * _MB, _MB), 1), ...),
    "flash.block": ("block", _whole(4096, 4096), 4096),
    "flash.progsize": ("progsize", _whole(32, 256, 32), 64),
    "vfs.offset": ("vfs_offset", _whole(0x10000, 31 * _MB, 4096), ...),
    "heap.size": ("heap", _text(r"[1-9][0-9]*k", 'a text such as "192k"'), ...),
    "heap.psram": ("psram", _whole(0, 32 * _MB, _MB), 0),
    "usb.kind": ("usb", _one_of("bridge", "native", "simulated"), ...),
    "usb.baud": ("baud", _whole(9600, 2000000), 115200),
    "usb.flash_baud": ("flash_baud", _whole(9600, 2000000), 460800),
    "usb.rx_buffer": ("rx_buffer", _whole(64, 65536), ...),
    "usb.resets_on_open": ("resets_on_open", _flag, ...),
    "pins.allowed": ("pins", _list_of(_PIN), ...),
    "pins.input_only": ("input_pins", _list_of(_PIN), []),
    "pins.led": ("led", _whole(-1, 48), -1),
    "pins.led_kind": ("led_kind", _one_of("none", "plain", "inverted", "neopixel"), "none"),
    "micropython.image": ("image", _text(r"[A-Z0-9_]*", "the name of an image"), ""),
    "micropython.version": ("image_version", _text(r"v1\.\d+\.\d+|", "such as v1.28.0"), ""),
    "micropython.date": ("image_date", _text(r"20\d{6}|", "a date such as 20260406"), ""),
    "boot.power_on": ("power_on_text", _text(r".*", "a text"), ""),
    "boot.reset": ("reset_text", _text(r".*", "a text"), ""),
}


def read_board(path: Path) -> BoardSpec:
    """The description in the file `path`. Raises UserError that names the file and the key."""
    try:
        data: dict[str, Any] = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    except (tomlkit.exceptions.TOMLKitError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}.") from None
    given = _flat(data)
    for key in given:
        if key not in _SCHEMA:
            raise UserError(f"{path}: {key} is no setting of a board.")
    values: dict[str, Any] = {}
    for key, (field, check, default) in _SCHEMA.items():
        if key not in given and default is ...:
            raise UserError(f"{path}: {key} is missing.")
        try:
            values[field] = check(given.get(key, default))
        except ValueError as error:
            raise UserError(f"{path}: {key} must be {error}, not {given.get(key)!r}.") from None
    _agree(path, values)
    values["chip"] = CHIPS[values["chip"]]
    return BoardSpec(folder=path.parent, **values)


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{name}": inner for name, inner in value.items()})
        else:
            flat[key] = value
    return flat


def _agree(path: Path, values: dict[str, Any]) -> None:
    """What one key demands of another."""
    if values["name"] != path.parent.name:
        raise UserError(f"{path}: name must be that of its folder, {path.parent.name!r}.")
    if list(values["flash_sizes"]) != sorted(values["flash_sizes"]):
        raise UserError(f"{path}: flash.sizes must begin with the smallest.")
    least = values["vfs_offset"] + FIRMWARE_RESERVE + UPDATE_RESERVE + 2 * MEMORY_RESERVE
    if values["flash_sizes"][0] < least:
        raise UserError(
            f"{path}: flash.sizes must be at least {least} for this vfs.offset, so that firmware, "
            "an update and a memory fit."
        )
    if not values["image"] and values["usb"] != "simulated":
        raise UserError(f"{path}: micropython.image is missing.")
    if values["image"] and not (values["image_version"] and values["image_date"]):
        raise UserError(f"{path}: micropython.version and micropython.date are missing.")
    if values["led"] >= 0 and values["led_kind"] == "none":
        raise UserError(f"{path}: pins.led_kind is missing.")
