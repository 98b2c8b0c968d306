"""`upyclaw context` on copies of files: what the settings, the memory and the options change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unit.formats_help import write_pair
from unit.test_memory_formats import golden
from upyclaw_host.cli import main
from upyclaw_host.flash.image import create_image
from upyclaw_host.formats.names import chat_map_file_name, session_file_name

_CHAT = "chat:serial:usb"
_GUEST = "chat:web:guest_7"
_HISTORY = [("user", 1, "I am Ada."), ("assistant", 2, "Hello Ada. " + "So be it. " * 300)]


def _session(folder: Path, chat: str) -> None:
    records = [
        (rtype, 1, json.dumps({"role": role, "content": text}).encode())
        for role, rtype, text in _HISTORY
    ]
    sid = f"{chat}:default_01"
    data, idx = write_pair(records)
    (folder / session_file_name(sid)).write_bytes(data)
    (folder / (session_file_name(sid) + ".idx")).write_bytes(idx)
    told = {
        "version": 1,
        "chat_key": chat,
        "current_alias": "default_01",
        "sessions": [{"alias": "default_01", "file": session_file_name(sid)}],
    }
    maps = folder / "chat_map"
    maps.mkdir(exist_ok=True)
    (maps / chat_map_file_name(chat)).write_text(json.dumps(told))
    names = folder / "sessions.txt"
    with names.open("a") as file:
        file.write(f"{session_file_name(sid)}\t{sid}\n")


@pytest.fixture
def board(tmp_path):
    """Files pulled from a board with two sessions and a memory."""
    sessions = tmp_path / "board" / "data" / "sessions"
    memory = tmp_path / "board" / "data" / "memory"
    sessions.mkdir(parents=True)
    memory.mkdir()
    for chat in (_CHAT, _GUEST):
        _session(sessions, chat)
    for name, data in golden("m_extract/after").files.items():
        (memory / name).write_bytes(data)
    return tmp_path / "board"


@pytest.fixture
def ask(board, capsys):
    """Make the request of a line in the first session; the JSON document."""

    def call(*arguments: str, line: str = "What do I drive?", chat: str = _CHAT) -> Any:
        with pytest.raises(SystemExit) as stop:
            main(["context", str(board), f"{chat}:default_01", "--text", line, *arguments])
        told = capsys.readouterr()
        if "--json" not in arguments:
            return int(stop.value.code or 0), told.out, told.err
        return json.loads(told.out)

    return call


def _system(told: dict[str, Any]) -> str:
    return str(told["body"]["messages"][0]["content"])


def _last(told: dict[str, Any]) -> str:
    return str(told["body"]["messages"][-1]["content"])


def test_the_body_is_printed_byte_for_byte(ask, board):
    before = {path: path.read_bytes() for path in board.rglob("*") if path.is_file()}
    code, out, err = ask()
    assert code == 0
    told = ask("--json")
    assert json.loads(out) == told["body"] and len(out.encode()) == told["bytes"]
    assert [part["part"] for part in told["parts"]][-2:] == ["history", "tools"]
    assert sum(part["bytes"] for part in told["parts"]) < told["bytes"]
    assert "records sent" in err
    roles = [message["role"] for message in told["body"]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert _last(told).startswith("What do I drive?\n\nKnown from earlier talks")
    assert before == {path: path.read_bytes() for path in board.rglob("*") if path.is_file()}


def test_memory_is_in_it_but_not_for_guests(ask):
    told = ask("--json")
    # What is recalled stands behind the user's words, the labels in the system prompt.
    assert "User drives a van" in _last(told) and "User drives a van" not in _system(told)
    assert "饮食" in _system(told) and "collects stamps" not in json.dumps(told)
    told = ask("--json", chat=_GUEST)
    assert _last(told) == "What do I drive?" and "饮食" not in _system(told)


def test_settings_of_the_board_count(ask, board):
    (board / "config.json").write_text(
        json.dumps(
            {
                "memory": {"mode": "light"},
                "prompt": {"system": "Be a pirate."},
                "model": {"max_tokens": 99, "name": "m", "base_url": "http://x/", "oops": 1},
            }
        )
    )
    told = ask("--json")
    assert _system(told).startswith("Be a pirate.") and "collects stamps" in _system(told)
    assert told["body"]["max_tokens"] == 99 and told["body"]["model"] == "m"
    assert any("model.oops" in notice for notice in told["notices"])
    (board / "config.json").write_text('{"memory":{"mode":"off"}}')
    told = ask("--json")
    assert "van" not in _system(told) and "model" not in told["body"]
    assert [t["function"]["name"] for t in told["body"]["tools"]] == ["get_time", "device_info"]


def test_options_say_what_the_model_can(ask):
    names = [t["function"]["name"] for t in ask("--json")["body"]["tools"]]
    assert "memory_recall" in names
    told = ask("--json", "--no-tools")
    assert "tools" not in told["body"] and "memory_recall" not in _system(told)
    whole = ask("--json")
    small = ask("--json", "--context-tokens", "1800")
    assert (whole["records_sent"], small["records_sent"]) == (3, 1)
    assert small["context_tokens"] == 1800 and small["bytes"] < whole["bytes"]


def test_lines_without_a_request(ask):
    code, out, err = ask(line="/session list")
    assert code == 1 and not out and "/session is a command" in err
    code, out, err = ask(line="记住：我养蜜蜂")
    assert code == 1 and not out and "answers this line by itself" in err and "蜜蜂" in err
    told = ask("--json", line="Remember: I keep bees")
    assert told["body"] is None and "bees" in told["answer"]
    code, _, err = ask(line="   ")
    assert code == 1 and "empty" in err


def test_a_full_session_takes_no_line(ask, board):
    name = session_file_name(f"{_CHAT}:default_01")
    (board / "config.json").write_text('{"session":{"limit":8192}}')
    path = board / "data" / "sessions" / name
    path.write_bytes(path.read_bytes() + b'{"role":"user","content":"x"}\n' * 300)
    (board / "data" / "sessions" / (name + ".blocked")).write_bytes(b"")
    code, out, err = ask()
    assert code == 1 and not out and "full" in err


def test_the_first_line_on_a_fresh_board(tmp_path, capsys):
    create_image(tmp_path / "flash.img", 64)
    for place, code in ((tmp_path / "flash.img", 0), (tmp_path, 2)):
        with pytest.raises(SystemExit) as stop:
            main(["context", str(place), "--text", "Hello?", "--json"])
        assert (stop.value.code or 0) == code
        told = capsys.readouterr().out
        if told:
            messages = json.loads(told)["body"]["messages"]
            assert [m["role"] for m in messages] == ["system", "user"]
            assert messages[1]["content"].endswith("Hello?")
