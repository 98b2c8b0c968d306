"""MicroPython goes onto chips with real esptool, against a mock of their boot loader (B62).

The memory on a chip is never deleted or hidden without `--erase-memory`.
"""

from __future__ import annotations

import dataclasses
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.chiprig import FACTORY, NVS, VFS, MockChip, micropython, table
from upyclaw_host.boards import load_board
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.install import micropython as step
from upyclaw_host.install.esptool import EspTool
from upyclaw_host.install.partitions import file_system, parse_table, read_image

BOARDS = ("esp32", "esp32_s3", "esp32_c3", "esp32_c6")
VFS_AT = 0x200000


@pytest.fixture
def chip(request: pytest.FixtureRequest) -> Iterator[MockChip]:
    with MockChip(request.param) as mock:
        yield mock


def on(board: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("chip", [load_board(board).chip.name], indirect=True)


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.fixture
def memory(tmp_path: Path) -> bytes:
    """A LittleFS of 2 MB with a session."""
    path = tmp_path / "memory.img"
    create_image(path, 512)
    with open_image(path, write=True) as image:
        image.write("/data/sessions/s_x_00000001.log", b"x" * 300)
    return path.read_bytes()


@pytest.mark.parametrize("name", BOARDS)
def test_an_image_is_written_read_back_and_the_memory_stays(
    name: str, tmp_path: Path, memory: bytes
) -> None:
    board = load_board(name)
    path = saved(tmp_path / "mp.bin", micropython(board.chip.name, size=300_000))
    image = read_image(path, board)
    shares: list[float] = []
    with MockChip(board.chip.name, board.flash_sizes[0]) as chip:
        chip.put(VFS_AT, memory)
        tool = EspTool(chip.url)
        # The mock tells of 4 MB of flash whatever it has.
        board = dataclasses.replace(board, flash_sizes=(0x400000,))
        layout = step.look(tool, board)
        assert layout.found.chip == board.chip and layout.memory
        assert layout.files is not None and layout.files.offset == VFS_AT
        step.write(tool, image, layout, erase_memory=False, share=shares.append)
        size = len(image.data) // 4096 * 4096
        assert tool.read(board.chip.offset, size) == image.data[:size]
        found = file_system(parse_table(bytes(chip.flash[0x8000:0x8C00])), 0x400000)
        assert bytes(chip.flash[image.end - 4096 : image.end]) == image.data[-4096:]
        assert bytes(chip.flash[VFS_AT : VFS_AT + len(memory)]) == memory
    assert found == layout.files
    assert len(shares) > 5 and shares == sorted(shares) and shares[-1] == 1.0


@on("esp32_c3")
def test_a_wrong_chip_is_refused_before_anything_is_written(chip: MockChip) -> None:
    tool = EspTool(chip.url)
    with pytest.raises(UserError, match=r"is an ESP32-C3, but esp32_c6 has an ESP32-C6"):
        step.look(tool, load_board("esp32_c6"))
    assert set(chip.flash) == {0xFF}


@on("esp32")
def test_images_that_would_lose_the_memory_are_refused(
    chip: MockChip, tmp_path: Path, memory: bytes
) -> None:
    board = load_board("esp32")
    tool = EspTool(chip.url)
    chip.put(VFS_AT, memory)
    chip.put(0x8000, table(NVS, FACTORY, VFS))
    before = bytes(chip.flash)
    layout = step.look(tool, board)
    larger = table(NVS, ("factory", 0, 0, 0x10000, 0x210000))
    shorter = table(NVS, FACTORY, ("vfs", 1, 0x81, VFS_AT, 0x100000))
    for partitions in (larger, shorter):
        path = saved(tmp_path / "other.bin", micropython("esp32", partitions=partitions))
        with pytest.raises(UserError, match="would not be found any more") as caught:
            step.write(tool, read_image(path, board), layout, erase_memory=False)
        assert "upyclaw backup" in caught.value.message
    path = saved(tmp_path / "long.bin", micropython("esp32", size=VFS_AT))
    with pytest.raises(UserError, match="would overwrite the board's memory"):
        step.write(tool, read_image(path, board), layout, erase_memory=False)
    assert bytes(chip.flash) == before
    # Asked for in so many words, it is done.
    path = saved(tmp_path / "other.bin", micropython("esp32", partitions=larger))
    step.write(tool, read_image(path, board), layout, erase_memory=True)
    assert set(chip.flash[VFS_AT:]) == {0xFF}
    assert bytes(chip.flash[0x1000:0x2000]) == path.read_bytes()[:0x1000]


def test_files_that_are_no_image_for_the_board(tmp_path: Path) -> None:
    board = load_board("esp32_c3")
    good = micropython("esp32c3")
    cases = {
        "is for ESP32-S3, but esp32_c3 has an ESP32-C3": micropython("esp32s3"),
        "is for ESP32, but": micropython("esp32"),
        "is no image for an ESP32 chip": b"PK\x03\x04" * 100,
        "has no partition table": good[:0x8000] + b"\xff" * 0x10000,
        "is not MicroPython": micropython("esp32c3", version="CircuitPython"),
        "take 1.24+": micropython("esp32c3", version="v1.23.0 on 2024-06-02"),
    }
    for words, data in cases.items():
        path = saved(tmp_path / "f.bin", data)
        with pytest.raises(UserError) as caught:
            read_image(path, board)
        assert words in caught.value.message and board.image_url in caught.value.message
    # One flipped bit in the table is found by its checksum.
    broken = bytearray(good)
    broken[0x8004] ^= 1
    with pytest.raises(UserError, match="no partition table"):
        read_image(saved(tmp_path / "f.bin", bytes(broken)), board)
    with pytest.raises(UserError, match="can't be read"):
        read_image(tmp_path / "missing.bin", board)


@pytest.mark.parametrize(
    ("version", "machine", "words"),
    [
        ("1.23.0", "Generic ESP32C3 module with ESP32C3", "too old"),
        ("1.28.0", "Generic ESP32 module with ESP32", "esp32_c3 has an ESP32-C3"),
        ("0.9", "", "ESP32_GENERIC_C3-20260406-v1.28.0.bin"),
    ],
)
def test_a_micropython_that_will_not_do(version: str, machine: str, words: str) -> None:
    board = load_board("esp32_c3")
    with pytest.raises(UserError) as caught:
        step.check_version({"version": version, "machine": machine}, board, "/dev/x")
    assert words in caught.value.message
    fine = {"version": "1.24.0", "machine": "Anything with ESP32C3"}
    assert step.check_version(fine, board, "/dev/x") == "1.24.0"


def test_a_port_without_a_chip(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no port"):
        EspTool("/dev/nowhere")
    _, slave = pty.openpty()
    name = os.ttyname(slave)
    with pytest.raises(UserError, match="hold the BOOT button"):
        EspTool(name, 115200)._run("--connect-attempts", "1", "chip-id")
