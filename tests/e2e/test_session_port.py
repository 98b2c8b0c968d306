"""`upyclaw session --port` reads the sessions of a running (simulated) board."""

from __future__ import annotations

import json

import pytest
from unit.formats_help import write_pair

from upyclaw_host.cli import main
from upyclaw_host.flash.image import open_image
from upyclaw_host.formats.names import session_file_name
from upyclaw_host.sim.board import SimBoard

_NAME = session_file_name("chat:serial:1:default_01")
_USER = '{"role":"user","content":"今天天气？"}'.encode()
_FINAL = b'{"role":"assistant","content":"' + b"sunny " * 2000 + b'"}'


@pytest.fixture
def filled(flash):
    """A running board with one session whose idx is not written yet."""
    data, _ = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    with open_image(flash, write=True) as image:
        image.write(f"/data/sessions/{_NAME}", data)
    with SimBoard(flash) as running:
        yield running


def _run(capsys, *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(["session", *arguments])
    return int(stop.value.code or 0), capsys.readouterr().out


def test_a_live_board_is_read_and_checked(filled, capsys):
    code, out = _run(capsys, "verify", "--port", filled.port, "--json")
    told = json.loads(out)
    assert code == 0 and told["ok"] is True
    assert [one["records"] for one in told["sessions"]] == [2]
    code, out = _run(capsys, "export", "--port", filled.port, _NAME, "--format", "openai")
    messages = json.loads(out)
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[0]["content"] == "今天天气？" and messages[1]["content"] == "sunny " * 2000


def test_the_doctor_at_a_live_board(filled, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--port", filled.port, "--json"])
    told = {one["what"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert not stop.value.code, told
    assert "1 session with 2 records" in told["sessions"]["says"]
    assert "KB are free" in told["flash"]["says"] and told["firmware"]["state"] == "fine"
    assert _run(capsys, "ls", "--port", filled.port)[0] == 0
