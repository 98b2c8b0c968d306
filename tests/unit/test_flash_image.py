"""Flash images: both LittleFS implementations agree, nothing is formatted, updates spare data."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from littlefs import LittleFS, UserContext

from unit.on_micropython import micropython
from upyclaw_host.cli.flash import command as flash_command
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import (
    FirmwareSource,
    build_flash,
    firmware_files,
    parse_file_list,
    update_firmware,
)
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.flash.wear import ensure_wear, read_wear, wear_path, wear_svg

FILES = {
    "/empty": b"",
    "/inline": b"i" * 250,
    "/block": bytes(range(256)) * 16,
    "/data/sessions/s_\u00fc_1.log": "grüße 你好 \U0001f600\n".encode() * 400,
    "/data/big": bytes(range(251)) * 600,
}

# Runs under MicroPython with the simulated board's own block device.
DEVICE = """
import os, sys, vfs
sys.path.insert(0, {sim!r})
import simflash
fs = vfs.VfsLfs2(simflash.Flash({image!r}, {wear!r}, 512, 4096), progsize=64)
os.mount(fs, "/f")
def content(name):
    with open("/f" + name, "rb") as f:
        return f.read()
files = {files!r}
{body}
"""


def on_device(image: Path, body: str, files: dict[str, bytes]) -> None:
    wear = ensure_wear(image, 512)
    sim = Path(__file__).resolve().parents[2] / "boards" / "sim"
    script = image.with_suffix(".py")
    script.write_text(
        DEVICE.format(sim=str(sim), image=str(image), wear=str(wear), files=files, body=body)
    )
    micropython(script)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "flash.img"
    create_image(path)
    return path


def test_micropython_reads_and_changes_what_the_pc_wrote(image: Path) -> None:
    with open_image(image, write=True) as opened:
        for path, data in FILES.items():
            opened.write(path, data)
    on_device(
        image,
        """
for name in files:
    assert content(name) == files[name], name
with open("/f/inline", "ab") as f:
    f.write(b"more")
os.remove("/f/block")
""",
        FILES,
    )
    with open_image(image) as opened:
        assert opened.read("/inline") == FILES["/inline"] + b"more"
        assert not opened.exists("/block")
        assert opened.read("/data/big") == FILES["/data/big"]


def test_the_pc_reads_what_micropython_wrote(image: Path) -> None:
    body = """
os.mkdir("/f/data"); os.mkdir("/f/data/sessions")
for name in files:
    with open("/f" + name, "wb") as f:
        f.write(files[name])
"""
    on_device(image, body, FILES)
    with open_image(image) as opened:
        found = {e.path: opened.read(e.path) for e in opened.walk() if not e.is_dir}
        assert found == FILES
        assert opened.stat("/data/big").size == len(FILES["/data/big"])
        assert opened.stat("/data").is_dir
    wear = read_wear(image)
    assert wear is not None
    assert wear.total_erases >= len(FILES["/data/big"]) // 4096
    assert wear.total_programs >= len(FILES["/data/big"]) // 256
    assert wear.reads > 0


def test_plain_littlefs_python_opens_it_with_default_caches(image: Path) -> None:
    with open_image(image, write=True) as opened:
        opened.write("/a", b"x" * 200)
    fs = LittleFS(
        context=UserContext(buffer=bytearray(image.read_bytes())),
        mount=False,
        block_size=4096,
        block_count=512,
    )
    fs.mount()
    with fs.open("/a", "rb") as handle:
        assert handle.read() == b"x" * 200


def test_reading_changes_nothing_and_cannot_write(image: Path) -> None:
    before = digest(image)
    with open_image(image) as opened:
        list(opened.walk())
        with pytest.raises(UserError, match="Read-only"):
            opened.write("/a", b"x")
    assert digest(image) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a flash image"),
        (b"hello", "not a flash image"),
        (b"\xff" * 8192, "holds no LittleFS"),
        (b"\0" * 8 + b"littlefs" + b"\0" * 8176, "cannot be read"),
    ],
)
def test_what_is_no_image_is_refused_and_left_alone(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "x.img"
    path.write_bytes(content)
    for write in (False, True):
        with pytest.raises(UserError, match=words) as caught:
            open_image(path, write=write)
        assert str(path) in caught.value.message
    with pytest.raises(UserError, match="exists already"):
        create_image(path)
    assert path.read_bytes() == content


def test_one_writer_at_a_time(image: Path) -> None:
    with open_image(image, write=True), pytest.raises(UserError, match="in use"):
        open_image(image, write=True)
    open_image(image, write=True).close()


def test_a_full_flash_keeps_the_old_file(image: Path) -> None:
    with open_image(image, write=True) as opened:
        opened.write("/a", b"old")
        with pytest.raises(UserError, match="the flash is full"):
            opened.write("/a", bytes(3_000_000))
        assert opened.read("/a") == b"old"
        assert opened.listdir() == ["a"]


def make_source(folder: Path) -> FirmwareSource:
    boot, package = folder / "boot", folder / "upyclaw"
    (package / "sub").mkdir(parents=True)
    boot.mkdir()
    (boot / "boot.py").write_text("")
    (boot / "main.py").write_text("import upyclaw\n")
    (package / "__init__.py").write_text("x = 1\n")
    (package / "sub" / "a.py").write_text("y = 1\n")
    (package / "page.html").write_text("<p>")
    return FirmwareSource(boot, package)


def test_update_changes_only_what_differs_and_never_data(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    image = tmp_path / "flash.img"
    build_flash(image, source=source)
    with open_image(image, write=True) as opened:
        opened.write("/data/sessions/s.log", b"kept")
        opened.write("/config.json", b"{}")
        opened.write("/upyclaw/__init__.py", b"stale source would win over the .mpy")
        assert opened.read("/upyclaw/sub/a.mpy")[:1] == b"M"
    assert update_firmware(image, source=source) == ["/upyclaw/__init__.py"]
    before = digest(image)
    assert update_firmware(image, source=source) == []
    assert digest(image) == before
    (source.package / "sub" / "a.py").write_text("y = 2\n")
    (source.package / "page.html").unlink()
    assert update_firmware(image, source=source) == [
        "/upyclaw/sub/a.mpy",
        "/upyclaw/files.txt",
        "/upyclaw/page.html",
    ]
    with open_image(image) as opened:
        assert opened.read("/data/sessions/s.log") == b"kept"
        assert opened.read("/config.json") == b"{}"
        names = ["__init__.mpy", "board.txt", "files.txt", "sub"]
        assert opened.listdir("/upyclaw") == names
        listed = parse_file_list(opened.read("/upyclaw/files.txt"))
        assert set(listed) | {"/upyclaw/files.txt"} == set(firmware_files(source))
        assert listed["/upyclaw/board.txt"] == hashlib.sha256(b"sim").hexdigest()


def test_wear_of_a_strange_file_and_its_picture(image: Path) -> None:
    assert read_wear(image) is None
    ensure_wear(image, 512)
    wear = read_wear(image)
    assert wear is not None
    assert wear.total_erases == 0
    assert wear_svg(wear, "a<b").count("<rect") == 513
    assert "a&lt;b" in wear_svg(wear, "a<b")
    wear_path(image).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="not a wear file"):
        read_wear(image)


def test_command_line_round_trip(tmp_path: Path) -> None:
    run = CliRunner()
    image, folder = tmp_path / "f.img", tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("hello")

    def call(*args: str) -> str:
        result = run.invoke(flash_command, list(args), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    call("new", str(image), "--empty")
    call("put", str(image), str(folder), "/data")
    assert '"path": "/data/sub/a.txt"' in call("ls", "-r", "--json", str(image))
    call("get", str(image), "/data", str(tmp_path / "out"))
    assert (tmp_path / "out" / "sub" / "a.txt").read_text() == "hello"
    assert "512" in call("stat", str(image))
    with pytest.raises(UserError, match="There is no /nope"):
        call("get", str(image), "/nope", str(tmp_path / "x"))
    with pytest.raises(UserError, match=r"ends in \.svg"):
        call("stat", str(image), "--plot", str(tmp_path / "x.png"))
