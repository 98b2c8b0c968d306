"""Boards: every description is checked, limits follow from it, nothing is typed twice."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from upyclaw_host import resources
from upyclaw_host.boards import (
    CHIPS,
    FIRMWARE_RESERVE,
    SESSION_LIMIT,
    UPDATE_RESERVE,
    board_names,
    load_board,
    read_board,
)
from upyclaw_host.cli import main
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import BOARD_FILE, LIST_FILE, firmware_files
from upyclaw_host.flash.image import BLOCK_SIZE
from upyclaw_host.install import settings

BOARDS = resources.boards_dir()


@pytest.mark.parametrize("name", ["esp32", "esp32_c3", "esp32_c6", "esp32_s3", "sim"])
def test_each_board_has_all_its_parts(name: str) -> None:
    board = load_board(name)
    assert board.name == name and name in board_names()
    assert board.vfs_offset + board.vfs_size == board.flash_sizes[0]
    assert not set(board.pins) & set(board.input_pins)
    assert (board.folder / "README.md").stat().st_size > 200
    settings.encode(settings.template(board))
    if not board.simulated:
        assert board.image_url.endswith(f"/{board.image}-20260406-v1.28.0.bin")


def test_a_session_fits_twice_beside_everything_else() -> None:
    for name in board_names():
        board = load_board(name)
        assert 8192 <= board.session_limit <= SESSION_LIMIT
        used = FIRMWARE_RESERVE + UPDATE_RESERVE
        used += (board.full_sessions + 1) * board.session_limit
        assert used <= board.vfs_size and board.full_sessions >= 1


def test_a_small_flash_gets_smaller_sessions() -> None:
    board = load_board("esp32")
    assert settings.template(board) == {"name": "upyclaw"}
    tight = dataclasses.replace(board, vfs_offset=0x400000 - 1600 * 1024)
    limit = tight.session_limit
    assert limit == (1600 - 640 - 640 - 128) * 1024 // 2 // BLOCK_SIZE * BLOCK_SIZE
    assert settings.template(tight) == {"name": "upyclaw", "session": {"limit": limit}}


def test_the_reserves_hold_the_firmware_as_it_is() -> None:
    sizes = [-(-len(data) // BLOCK_SIZE) * BLOCK_SIZE for data in firmware_files().values()]
    folders = 2 * BLOCK_SIZE * 12
    assert sum(sizes) + folders <= UPDATE_RESERVE <= FIRMWARE_RESERVE


def test_chips_are_esptools() -> None:
    from esptool.targets import CHIP_DEFS

    for chip in CHIPS.values():
        theirs = CHIP_DEFS[chip.name]
        assert chip.title == theirs.CHIP_NAME
        assert (chip.offset, chip.image_id) == (
            theirs.BOOTLOADER_FLASH_OFFSET,
            theirs.IMAGE_CHIP_ID,
        )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BOARDS / "esp32_s3", tmp_path / "esp32_s3")) / "board.toml"


def change(path: Path, key: str, value: Any) -> None:
    document = tomlkit.parse(path.read_text())
    *groups, name = key.split(".")
    table: Any = document
    for group in groups:
        table = table[group]
    if value is None:
        del table[name]
    else:
        table[name] = value
    path.write_text(tomlkit.dumps(document))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("chip", "esp99", "one of esp32, "),
        ("chip", None, "is missing"),
        ("title", "", "a text"),
        ("name", "other", "that of its folder"),
        ("flash.sizes", [], "at least 1"),
        ("flash.sizes", [4194305], "a multiple of 1048576"),
        ("flash.sizes", [16777216, 8388608], "the smallest"),
        ("flash.sizes", [3145728], "must be at least"),
        ("flash.progsize", 33, "a multiple of 32"),
        ("vfs.offset", True, "a whole number"),
        ("heap.size", "2M", '"192k"'),
        ("usb.kind", "bluetooth", "one of bridge, native, simulated"),
        ("usb.resets_on_open", "no", "true or false"),
        ("usb.colour", "red", "no setting of a board"),
        ("pins.allowed", [1, "two"], "a whole number"),
        ("pins.led_kind", "none", "is missing"),
        ("micropython.version", "1.28", "v1.28.0"),
        ("micropython.date", None, "are missing"),
        ("micropython.image", "", "is missing"),
    ],
)
def test_a_broken_description_is_one_sentence(
    copy: Path, key: str, value: Any, words: str
) -> None:
    read_board(copy)
    change(copy, key, value)
    with pytest.raises(UserError) as caught:
        read_board(copy)
    group = key if key != "micropython.date" else "micropython."
    assert str(copy) in caught.value.message and group in caught.value.message
    assert words in caught.value.message


def test_what_is_not_toml_is_one_sentence(copy: Path) -> None:
    copy.write_text("name = \n")
    with pytest.raises(UserError, match=r"board\.toml is not TOML"):
        read_board(copy)


def test_a_new_board_is_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = Path(shutil.copytree(BOARDS, tmp_path / "boards"))
    shutil.copytree(boards / "esp32_c3", boards / "mine")
    change(boards / "mine" / "board.toml", "name", "mine")
    monkeypatch.setattr(resources, "boards_dir", lambda: boards)
    assert "mine" in board_names()
    assert firmware_files(board=load_board("mine"))[BOARD_FILE] == b"mine"


def test_the_command_shows_limits(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--json"], [], ["esp32_s3"], ["esp32", "--json"]):
        with pytest.raises(SystemExit) as stop:
            main(["boards", *arguments])
        assert stop.value.code == 0
        out = capsys.readouterr().out
        assert "esp32" in out
        if arguments == ["--json"]:
            listed = {board["name"]: board for board in json.loads(out)}
            assert listed["esp32_s3"]["limits"]["full_sessions"] > 20
            assert listed["esp32"]["image_offset"] == 0x1000
            fits = {name for name, board in listed.items() if board["limits"]["page"]}
            assert fits == {"esp32_s3"}
        if arguments == ["esp32_s3"]:
            assert "served on Wi-Fi" in out and "not measured on a chip" in out


class Manifest:
    """MicroPython's manifest functions, as far as these manifests use them."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.others: list[str] = []

    def run(self, path: Path) -> None:
        def include(name: str) -> None:
            if name.startswith("$("):
                self.others.append(name)
            else:
                self.run(path.parent / name)

        def package(name: str, base_path: str, opt: int) -> None:
            base = (path.parent / base_path).resolve()
            self.files |= {p.relative_to(base).as_posix() for p in (base / name).rglob("*.py")}

        def module(name: str, base_path: str, opt: int) -> None:
            assert ((path.parent / base_path) / name).is_file()
            self.files.add(name)

        names = {"include": include, "package": package, "module": module}
        exec(compile(path.read_text(), str(path), "exec"), names)


@pytest.mark.parametrize("name", ["esp32", "esp32_c3", "esp32_c6", "esp32_s3", "sim"])
def test_the_frozen_build_has_every_module(name: str) -> None:
    manifest = Manifest()
    manifest.run(BOARDS / name / "manifest.py")
    package = resources.device_package()
    wanted = {p.relative_to(package.parent).as_posix() for p in package.rglob("*.py")}
    assert manifest.files == wanted | {"boot.py", "main.py"}
    assert bool(manifest.others) != load_board(name).simulated
    # What lies on the flash instead comes from the same files.
    on_flash = {path for path in firmware_files() if path.endswith((".mpy", ".py"))}
    assert {"/boot.py", "/main.py"} <= on_flash and LIST_FILE not in on_flash
