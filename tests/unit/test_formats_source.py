"""SOURCE: directories and LittleFS images, whole, short, foreign, and never changed (B60)."""

from __future__ import annotations

import functools
import hashlib
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from littlefs import LittleFS

from unit.formats_help import write_pair
from upyclaw_host.errors import UserError
from upyclaw_host.formats.catalog import load_catalog
from upyclaw_host.formats.names import session_file_name
from upyclaw_host.salvage import Salvage
from upyclaw_host.source import open_source

_KEY = "chat:serial:1"
_USER = b'{"role":"user","content":"one"}'
_FINAL = b'{"role":"assistant","content":"eins"}'


def _files(turns: int = 3) -> dict[str, bytes]:
    files = {}
    for alias in ("default_01", "work"):
        data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)] * turns)
        name = session_file_name(f"{_KEY}:{alias}")
        files[f"data/sessions/{name}"] = data
        files[f"data/sessions/{name}.idx"] = idx
    files["data/sessions/chat_map/chat_chat_serial_1_1b7a6be8.json"] = (
        b'{"chat_key":"chat:serial:1","current_alias":"work","sessions":["default_01","work"]}'
    )
    return files


def _image(path: Path, files: dict[str, bytes], blocks: int = 64, block_size: int = 4096) -> Path:
    fs = LittleFS(
        block_size=block_size,
        block_count=blocks,
        read_size=64,
        prog_size=64,
        cache_size=256,
        lookahead_size=32,
    )
    for name, content in files.items():
        fs.makedirs("/" + name.rpartition("/")[0], exist_ok=True)
        with fs.open("/" + name, "wb") as handle:
            handle.write(content)
    path.write_bytes(bytes(fs.context.buffer))
    return path


def _directory(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return root


@pytest.mark.parametrize("strip", ["", "data/", "data/sessions/"])
def test_a_directory_is_read_from_any_level(tmp_path, strip):
    files = {name.removeprefix(strip): content for name, content in _files().items()}
    catalog = load_catalog(open_source(_directory(tmp_path, files)))
    assert sorted((s.alias, s.current, s.id) for s in catalog.sessions) == [
        ("default_01", False, "chat:serial:1:default_01"),
        ("work", True, "chat:serial:1:work"),
    ]
    assert all(len(s.pair.records) == 6 for s in catalog.sessions)


@pytest.mark.parametrize("block_size", [4096, 512])
def test_an_image_is_read_and_not_changed(tmp_path, block_size):
    path = _image(tmp_path / "f.img", _files(), 262144 // block_size, block_size)
    before = hashlib.sha256(path.read_bytes()).digest()
    source = open_source(path)
    assert {n: source.read(n) for n in source.files()} == _files()
    assert not source.findings
    assert hashlib.sha256(path.read_bytes()).digest() == before


def test_an_image_with_something_behind_it_has_the_size_of_its_superblock(tmp_path):
    path = _image(tmp_path / "f.img", _files())
    path.write_bytes(path.read_bytes() + b"\xff" * 4096 * 10)
    source = open_source(path)
    assert {n: source.read(n) for n in source.files()} == _files()
    assert not source.findings


def test_a_session_is_found_by_id_alias_and_file_name(tmp_path):
    catalog = load_catalog(open_source(_directory(tmp_path, _files())))
    name = session_file_name(f"{_KEY}:work")
    for wanted in (
        f"{_KEY}:work",
        "work",
        name,
        name[:-4],
        name + ".idx",
        f"data/sessions/{name}",
    ):
        assert catalog.find(wanted).alias == "work"
    assert catalog.find(None).alias == "work"  # the current one
    with pytest.raises(UserError, match="default_01, work"):
        catalog.find("nope")


def test_an_alias_of_two_chats_is_asked_back(tmp_path):
    files = _files()
    name = session_file_name("chat:web:1:work")
    files[f"data/sessions/{name}"] = _USER + b"\n"
    files["data/sessions/chat_map/chat_chat_web_1_0.json"] = (
        b'{"chat_key":"chat:web:1","current_alias":"work","sessions":["work"]}'
    )
    catalog = load_catalog(open_source(_directory(tmp_path, files)))
    with pytest.raises(UserError, match="chat:serial:1:work, chat:web:1:work"):
        catalog.find("work")
    assert catalog.find("chat:web:1:work").base == name


def _big() -> dict[str, bytes]:
    rng = random.Random(7)
    files = {}
    for number in range(6):
        body = bytes(rng.choices(b"abcdefgh", k=20_000))
        raw = b'{"role":"user","content":"' + body + b'"}'
        data, idx = write_pair([(1, 1, raw), (2, 1, _FINAL)])
        name = session_file_name(f"s{number}")
        files[f"data/sessions/{name}"] = data
        files[f"data/sessions/{name}.idx"] = idx
    return files


def test_a_short_image_gives_what_is_there_and_says_what_is_not(tmp_path):
    files = _big()
    path = _image(tmp_path / "f.img", files)
    image = path.read_bytes()
    told = kept = refused = 0
    for missing in range(1, 63):
        path.write_bytes(image[: len(image) - missing * 4096])
        try:
            source = open_source(path)
        except UserError as error:
            assert "is a short copy" in error.message
            refused += 1
            continue
        first = source.findings[0]
        assert first.code == "short-copy" and first.offset == len(image) - missing * 4096
        assert f"last {missing} of 64 blocks are missing" in first.message
        found = {name: source.read(name) for name in source.files()}
        short = {finding.file for finding in source.findings[1:]}
        assert {finding.code for finding in source.findings} == {"short-copy"}
        for name, content in found.items():
            if name in short:
                told += 1
                assert len(content) < len(files[name]) and files[name].startswith(content)
            else:
                kept += 1
                assert content == files[name]
    assert told and kept and refused < 20


def _without(image: bytes, lost: bytes) -> bytes:
    """The image without the directory blocks that hold the name `lost`."""
    parts = [image[at : at + 4096] for at in range(0, len(image), 4096)]
    return b"".join(b"\xff" * 4096 if lost in part[:1024] else part for part in parts)


def test_a_lost_directory_costs_only_its_own_files(tmp_path):
    files = {**_big(), "notes/a.txt": b"a" * 5000, "notes/inner/b.txt": b"b"}
    path = _image(tmp_path / "f.img", files)
    path.write_bytes(_without(path.read_bytes(), b"a.txt"))
    source = open_source(path)
    found = {name: source.read(name) for name in source.files()}
    assert found == _big()
    assert [(f.code, f.file) for f in source.findings] == [("image-damaged", "notes")]


@pytest.mark.parametrize("block_size", [4096, 512])
def test_the_salvager_reads_whole_images_as_the_library_does(tmp_path, block_size):
    many = {f"a/b/f{i}.txt": b"x" * (i * 37) for i in range(80)}
    files = {**_big(), **_files(), **many, "e": b""}
    path = _image(tmp_path / "f.img", files, 1048576 // block_size, block_size)
    salvage = Salvage(path.read_bytes(), block_size)
    assert {name: salvage.read(name) for name in salvage.files} == files
    assert not salvage.lost


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_no_damage_of_an_image_raises(seed):
    rng = random.Random(seed)
    image = bytearray(_damaged_base())
    for _ in range(rng.randint(1, 60)):
        block = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, rng.randrange(64)])
        image[block * 4096 + rng.randrange(700)] ^= 1 << rng.randrange(8)
    salvage = Salvage(bytes(image), 4096)
    for name in salvage.files:
        assert len(salvage.read(name)) <= salvage.files[name].size
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.img")
        path.write_bytes(image)
        try:
            source = open_source(path)
        except UserError:
            return
        for name in source.files():
            source.read(name)


@functools.cache
def _damaged_base() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return _image(Path(folder, "f.img"), {**_big(), **_files()}).read_bytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xff" * 8192, "erased"),
        (b"garbage" * 900, "no LittleFS image"),
        (b"\xeb\x3c\x90MSDOS5.0" + bytes(43) + b"FAT12   " + bytes(448) + b"\x55\xaa", "FAT"),
        (b"\0" * 8 + b"littlefs" + b"\xff" * 9000, "superblock is damaged"),
    ],
)
def test_other_files_get_one_sentence(tmp_path, content, words):
    path = tmp_path / "f.img"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        open_source(path)
    assert words in caught.value.message and str(path) in caught.value.message
    assert path.read_bytes() == content


def test_a_missing_source_gets_one_sentence(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        open_source(tmp_path / "nothing")
    with pytest.raises(UserError, match="--port"):
        open_source(None)
