"""`upyclaw doctor`: what may be wrong is said, with what to do; a healthy board is left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from unit.formats_help import write_pair
from unit.test_memory_formats import golden
from upyclaw_host.cli import main
from upyclaw_host.flash.firmware import build_flash
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.formats.names import session_file_name

_NAME = session_file_name("serial")
_LOG = f"/data/sessions/{_NAME}"
_DATA, _IDX = write_pair(
    [(1, 1, b'{"role":"user","content":"one"}'), (2, 1, b'{"role":"assistant","content":"1"}')]
)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flash of a board that has a session and a memory."""
    path = tmp_path_factory.mktemp("doctor") / "flash.img"
    build_flash(path)
    with open_image(path, write=True) as image:
        image.write(_LOG, _DATA)
        image.write(_LOG + ".idx", _IDX)
        for name, data in golden("m_extract/after").files.items():
            image.write(f"/data/memory/{name}", data)
    return path


@pytest.fixture
def see(capsys):
    """Run the doctor; (exit code, {what: [(state, says and do)]})."""

    def call(place: Path) -> tuple[int, dict[str, list[tuple[str, str]]]]:
        with pytest.raises(SystemExit) as stop:
            main(["doctor", str(place), "--json"])
        told: dict[str, list[tuple[str, str]]] = {}
        document = json.loads(capsys.readouterr().out)
        for check in document["checks"]:
            words = f"{check['says']} {check['do']}"
            told.setdefault(check["what"], []).append((check["state"], words))
        code = int(stop.value.code or 0)
        assert document["ok"] == (code == 0)
        return code, told

    return call


def test_a_healthy_board(healthy, see, capsys):
    before = healthy.read_bytes()
    code, told = see(healthy)
    assert code == 0 and set(told) == {"sessions", "memory", "settings", "flash", "firmware"}
    assert {state for checks in told.values() for state, _ in checks} == {"fine"}
    assert healthy.read_bytes() == before
    with pytest.raises(SystemExit):
        main(["doctor", str(healthy)])
    assert len(capsys.readouterr().out.splitlines()) == 5


_HARMS: list[tuple[str, str, str, dict[str, bytes | None]]] = [
    ("sessions", "fault", "session repair", {_LOG: _DATA[:-1]}),
    ("sessions", "fault", "can't be mended", {_LOG: _DATA.replace(b'{"role":"u', b'X"role":"u')}),
    ("sessions", "fault", "/session trim", {_LOG + ".blocked": b""}),
    ("memory", "fault", "memory verify", {"/data/memory/memory_records.jsonl": b'{"broken'}),
    ("settings", "fault", "nonsense is no setting", {"/config.json": b'{"nonsense":1}'}),
    ("settings", "fault", "not a JSON object", {"/config.json": b'{"name":'}),
    ("settings", "hint", "wifi add", {"/config.json": b'{"model":{"base_url":"http://x/v1"}}'}),
    ("firmware", "fault", "install --board sim", {"/upyclaw/app.mpy": b"M"}),
    ("firmware", "fault", "is missing", {"/upyclaw/app.mpy": None}),
    ("firmware", "fault", "there is no upyclaw", {"/upyclaw/files.txt": None}),
    ("firmware", "fault", "2 starts in a row", {"/failed_starts.txt": b"A()\nMemoryError()\n"}),
    ("firmware", "hint", "an update broke off", {"/upyclaw.new/gone.txt": b""}),
    ("firmware", "hint", "another version", {"/upyclaw/files.txt": b""}),
    ("flash", "fault", "new turns are not saved", {"/big": -6}),
    ("flash", "hint", "to be tidied", {"/big": -40, _LOG + ".bad": b"y"}),
]


@pytest.mark.parametrize(("what", "state", "words", "files"), _HARMS)
def test_what_is_wrong_is_said(healthy, see, tmp_path, what, state, words, files):
    place = tmp_path / "harmed.img"
    shutil.copy(healthy, place)
    with open_image(place, write=True) as image:
        for path, data in files.items():
            if data is None:
                image.remove(path)
            elif isinstance(data, int):
                # All but so many blocks.
                image.write(path, bytes(4096 * (512 - image.used_blocks + data)))
            else:
                image.write(path, data)
    code, told = see(place)
    assert code == (state == "fault")
    assert any(one == state and words in said for one, said in told.pop(what)), told
    # What is well is not complained about.
    assert {one for checks in told.values() for one, _ in checks} == {"fine"}


def test_pulled_files_and_what_is_no_board(see, tmp_path, capsys):
    pulled: Any = tmp_path / "pulled" / "sessions"
    pulled.mkdir(parents=True)
    (pulled / _NAME).write_bytes(_DATA)
    (pulled / (_NAME + ".idx")).write_bytes(_IDX)
    assert see(tmp_path / "pulled") == (
        0,
        {"sessions": [("fine", "1 session with 2 records, no faults. ")]},
    )
    (tmp_path / "nothing").mkdir()
    create_image(tmp_path / "whole.img", 64)
    (tmp_path / "short.img").write_bytes((tmp_path / "whole.img").read_bytes()[:-4096])
    code, told = see(tmp_path / "short.img")
    assert code == 1 and "copy it again" in told["reading"][0][1]
    for place in (tmp_path / "nothing", tmp_path / "missing", ""):
        with pytest.raises(SystemExit) as stop:
            main(["doctor", str(place)])
        told_err = capsys.readouterr().err
        assert stop.value.code == 2 and len(told_err.splitlines()) == 1
