"""Whatever stands behind the output, a command ends without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unit.formats_help import write_pair
from upyclaw_host.cli import main
from upyclaw_host.formats.names import session_file_name


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    data, idx = write_pair([(1, 1, '{"role":"user","content":"大门 🔑"}'.encode())])
    (tmp_path / session_file_name("serial")).write_bytes(data)
    (tmp_path / (session_file_name("serial") + ".idx")).write_bytes(idx)
    return tmp_path


def show(place: Path, out: int, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "upyclaw_host", "session", "show", str(place)],
        stdout=out,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=60,
    )


def test_an_encoding_without_chinese(sessions):
    done = show(sessions, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"You   ?? ?" in done.stdout


def test_a_full_disk_below_the_output(sessions):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        done = show(sessions, full.fileno())
    assert done.returncode == 2
    assert done.stderr.startswith(b"upyclaw: ") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("text", ["bad", "[]", '{"networks": []}'])
def test_a_simulated_world_that_is_none(tmp_path, capsys, text):
    world = tmp_path / "world.json"
    world.write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["sim", "--flash", str(tmp_path / "flash.img"), "--network", str(world)])
    assert stop.value.code == 2 and str(world) in capsys.readouterr().err
    assert not (tmp_path / "flash.img").exists()
