"""A board in use: opening its port resets nothing (B23), a backup loses nothing (B22)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.rig import say, talk
from upyclaw_host.cli import main
from upyclaw_host.sim import SimBoard


def run(capsys, *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0), capsys.readouterr().out


def test_ten_programs_in_a_row_and_no_reset(flash, scripted):
    script = scripted([say(f"answer {i}") for i in range(10)])
    ends: list[str] = []
    with SimBoard(flash, update=False, on_event=ends.append) as board:
        for i in range(10):
            (result,) = talk(board.port, script.relay(), f"question {i}")
            assert result.ok, result.error
    assert ends == []
    asked = [text for role, text in script.messages() if role == "user"]
    assert asked[-1] == "question 9" and asked[0] == "question 0" and len(asked) == 10


def test_a_backup_between_two_questions(flash, scripted, tmp_path: Path, capsys):
    script = scripted([say("first answer"), say("second answer")])
    saved = tmp_path / "saved"
    with SimBoard(flash, update=False) as board:
        assert talk(board.port, script.relay(), "first")[0].ok
        code, out = run(capsys, "backup", "--port", board.port, str(saved), "--json")
        assert code == 0 and json.loads(out)["short"] == []
        assert talk(board.port, script.relay(), "second")[0].ok
    code, out = run(capsys, "session", "export", str(saved), "--format", "openai")
    told = [(m["role"], m["content"]) for m in json.loads(out)]
    assert code == 0 and told == [("user", "first"), ("assistant", "first answer")]
    assert script.messages() == [*told, ("user", "second")]
