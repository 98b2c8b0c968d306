"""Whole images and dumps, and an installation with `--firmware` from first to last."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from unit.chiprig import FACTORY, NVS, VFS, MockChip, micropython, table

from e2e.boardrig import files_on, make_image
from e2e.rig import say, talk
from upyclaw_host.boards import load_board
from upyclaw_host.cli import install as install_cli
from upyclaw_host.cli import main
from upyclaw_host.flash.firmware import firmware_files
from upyclaw_host.flash.image import open_image
from upyclaw_host.install.esptool import EspTool
from upyclaw_host.repl import Repl
from upyclaw_host.sim import SimBoard
from upyclaw_host.source import open_source


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    told = capsys.readouterr()
    return int(stop.value.code or 0), told.out, told.err


@pytest.mark.parametrize("partitions", [None, table(NVS, FACTORY, VFS)], ids=["rest", "vfs"])
def test_an_image_mounts_and_starts(partitions, tmp_path, capsys, scripted, no_settings):
    base, out = tmp_path / "base.bin", tmp_path / "all.bin"
    base.write_bytes(micropython("esp32", partitions=partitions))
    command = ["image", "--board", "esp32", "--base", str(base), "--out", str(out)]
    code, told, err = run(capsys, *command, "--set", "name=desk", "--json")
    assert code == 0, err
    facts = json.loads(told)
    assert facts["offset"] == 0x1000 and facts["vfs"] == {"offset": 0x200000, "size": 0x200000}
    assert facts["command"] == f"esptool --chip esp32 write-flash 0x1000 {out}"
    assert out.stat().st_mode & 0o777 == 0o600  # the settings in it may hold a key (B30)
    data = out.read_bytes()
    assert data.startswith(base.read_bytes()) and len(data) == 0x400000 - 0x1000
    partition = tmp_path / "partition.img"
    partition.write_bytes(data[0x200000 - 0x1000 :])
    files = files_on(partition)
    assert files == {
        **firmware_files(board=load_board("esp32")),
        "/config.json": b'{\n "name": "desk"\n}\n',
    }
    code, _, err = run(capsys, *command)
    assert code == 2 and "exists already" in err
    with SimBoard(partition, update=False) as board:
        (result,) = talk(board.port, scripted([say("Hello.")]).relay(), "Hi")
        assert result.text == "Hello."


def test_a_base_that_leaves_no_room(tmp_path, capsys):
    base = tmp_path / "base.bin"
    whole = table(NVS, ("factory", 0, 0, 0x10000, 0x3F0000))
    base.write_bytes(micropython("esp32c3", partitions=whole))
    out = tmp_path / "all.bin"
    code, _, err = run(
        capsys, "image", "--board", "esp32_c3", "--base", str(base), "--out", str(out)
    )
    assert code == 2 and "leaves no room for files" in err and not out.exists()


@pytest.fixture
def memory(tmp_path: Path) -> bytes:
    path = tmp_path / "memory.img"
    make_image(path, {"/data/sessions/s_x_00000001.log": b'{"role":"user","content":"a"}\n'})
    return path.read_bytes()


def dump(memory: bytes, partitions: bytes, at: int = 0x200000, size: int = 0x400000) -> bytes:
    data = bytearray(random.Random(1).randbytes(0x40000)) + b"\xff" * (size - 0x40000)
    data[0x8000 : 0x8000 + len(partitions)] = partitions
    data[at : at + len(memory)] = memory
    return bytes(data[:size])


@pytest.mark.parametrize(
    ("partitions", "name"),
    [
        (table(NVS, FACTORY, VFS), "vfs"),
        (table(NVS, FACTORY), "vfs"),
        (table(NVS, FACTORY, ("storage", 1, 0x82, 0x200000, 0x200000)), "storage"),
        (b"\xff" * 0xC00, ""),
    ],
    ids=["fat named vfs", "no line for it", "spiffs", "no table"],
)
def test_a_dump_gives_its_file_system(partitions, name, memory, tmp_path, capsys):
    path, out = tmp_path / "dump.bin", tmp_path / "fs.img"
    content = dump(memory, partitions)
    path.write_bytes(content)
    path.chmod(0o444)
    code, told, err = run(capsys, "flash", "from-dump", str(path), "--out", str(out), "--json")
    assert code == 0, err
    facts = json.loads(told)
    assert (facts["offset"], facts["size"], facts["missing"]) == (0x200000, 0x200000, 0)
    assert facts["partition"] == name and out.read_bytes() == memory
    assert path.read_bytes() == content and out.stat().st_mode & 0o777 == 0o600
    # The image and the dump itself are both a SOURCE.
    for place in (out, path):
        code, told, _ = run(capsys, "session", "ls", str(place), "--json")
        assert code == 0 and len(json.loads(told)["sessions"]) == 1
    code, _, err = run(capsys, "flash", "from-dump", str(path), "--out", str(out))
    assert code == 2 and "exists already" in err


def test_dumps_that_begin_late_or_end_early(memory, tmp_path, capsys):
    whole = dump(memory, table(NVS, FACTORY, VFS))
    late = tmp_path / "late.bin"
    late.write_bytes(whole[0x1000:])
    code, told, _ = run(capsys, "flash", "from-dump", str(late), "--json")
    facts = json.loads(told)
    assert code == 0 and facts["partition"] == "vfs" and facts["offset"] == 0x1FF000
    assert Path(facts["image"]).read_bytes() == memory
    short = tmp_path / "short.bin"
    short.write_bytes(whole[:-8192])
    code, told, _ = run(capsys, "flash", "from-dump", str(short))
    assert code == 0 and "8,192 bytes are missing" in told
    source = open_source(short)
    assert any(finding.code == "short-copy" for finding in source.findings)
    assert source.files() == {"data/sessions/s_x_00000001.log": 30}


def test_one_damaged_superblock_is_no_obstacle(memory, tmp_path, capsys):
    harmed = bytearray(memory)
    harmed[0:64] = random.Random(2).randbytes(64)
    path = tmp_path / "dump.bin"
    path.write_bytes(dump(bytes(harmed), table(NVS, FACTORY, VFS)))
    code, told, _ = run(capsys, "flash", "from-dump", str(path), "--json")
    facts = json.loads(told)
    assert code == 0 and facts["offset"] == 0x200000
    with open_image(facts["image"]) as image:
        assert image.exists("/data/sessions/s_x_00000001.log")


@pytest.mark.parametrize("partitions", [table(NVS, FACTORY, VFS), b"\xff" * 0xC00])
def test_what_lies_before_the_file_system_is_not_taken_for_it(
    partitions, memory, tmp_path, capsys
):
    """An app that fills its partition to the last byte."""
    content = bytearray(dump(memory, partitions))
    content[0x1F0000:0x200000] = random.Random(3).randbytes(0x10000)
    path = tmp_path / "dump.bin"
    path.write_bytes(content)
    code, told, _ = run(capsys, "flash", "from-dump", str(path), "--json")
    facts = json.loads(told)
    assert code == 0 and (facts["offset"], facts["file_systems"]) == (0x200000, 1)
    assert open_source(path).files() == {"data/sessions/s_x_00000001.log": 30}


def test_a_dump_without_a_file_system(tmp_path, capsys):
    path = tmp_path / "dump.bin"
    path.write_bytes(dump(b"", table(NVS, FACTORY, VFS)))
    code, _, err = run(capsys, "flash", "from-dump", str(path))
    assert code == 2 and "holds no LittleFS" in err and "vfs at 0x200000" in err
    assert not list(tmp_path.glob("*.img"))


def test_install_with_an_image_from_first_to_last(memory, tmp_path, capsys, monkeypatch):
    """The chip's flash is the mock's, its MicroPython the simulated board's."""
    image = tmp_path / "flash.img"
    make_image(image, {"/data/sessions/s_x_00000001.log": b'{"role":"user","content":"a"}\n'})
    base, saved = tmp_path / "ESP32_GENERIC.bin", tmp_path / "saved"
    base.write_bytes(micropython("esp32", size=200_000))
    monkeypatch.setattr(
        Repl, "facts", lambda self: {"version": "1.28.0", "machine": "Module with ESP32"}
    )
    with MockChip("esp32") as chip, SimBoard(image, "esp32", update=False) as board:
        chip.put(0x200000, memory)
        monkeypatch.setattr(install_cli, "EspTool", lambda port, baud: EspTool(chip.url, baud))
        command = ["install", "--board", "esp32", "--port", board.port, "--json"]
        command += ["--firmware", str(base), "--backup", str(saved)]
        code, out, err = run(capsys, *command)
        assert code == 0, err
        report = json.loads(out)
        assert report["flashed"] == "1.28.0" and report["board"] == "esp32"
        assert report["backup"] == str(saved)
        assert bytes(chip.flash[0x1000 : 0x1000 + 200_000]) == base.read_bytes()
        assert bytes(chip.flash[0x200000:]) == memory
        # Only asked for in so many words is the memory deleted, and then there is a backup.
        command = ["install", "--board", "esp32", "--port", board.port, "--yes", "--erase-memory"]
        code, out, err = run(capsys, *command, "--backup", str(tmp_path / "again"))
        assert code == 0 and "upyclaw restore --port" in out, err
        assert set(chip.flash[0x200000:]) == {0xFF}
        assert bytes(chip.flash[0x1000 : 0x1000 + 200_000]) == base.read_bytes()
    assert (saved / "data/sessions/s_x_00000001.log").read_bytes().startswith(b'{"role"')
    assert files_on(image)["/upyclaw/board.txt"] == b"esp32"
