"""The main job: chat over the serial line, pull the plug, come back, the board remembers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.rig import completion, say, talk, with_client
from upyclaw_host.sim import SimBoard


def test_answer_comes_in_pieces_and_is_stored(board, scripted):
    script = scripted([say("The gate code is 4417, I will remember it. " * 8)])
    pieces = []

    async def run(client):
        return await client.turn("The gate code is 4417.", on_text=pieces.append)

    result = with_client(board.port, script.relay(), run)
    assert result.ok, result.error
    assert result.text == "The gate code is 4417, I will remember it. " * 8
    assert len(pieces) > 1
    assert result.session == "default_01"
    assert result.heap_free > 20_000
    assert script.messages() == [("user", "The gate code is 4417.")]
    assert script.requests()[0]["stream"] is True


def test_board_remembers_after_power_cut(flash, scripted):
    script = scripted([say("Noted 😀 中文"), say("It is 4417."), say("Yes.")])
    board = SimBoard(flash)
    board.start()
    talk(board.port, script.relay(), "The gate code is 4417 – 大门 🔑.")
    board.kill()
    board.start()
    (result,) = talk(board.port, script.relay(), "What is the gate code?")
    board.stop()
    # A script starts over with each relay: the second one answers with its first line.
    assert result.text == "Noted 😀 中文"
    assert script.messages() == [
        ("user", "The gate code is 4417 – 大门 🔑."),
        ("assistant", "Noted 😀 中文"),
        ("user", "What is the gate code?"),
    ]


def test_user_line_is_durable_before_the_model_answers(flash, scripted):
    """B18: power cut while the model thinks."""
    slow = scripted([say("too late", delay_ms=20_000)])
    board = SimBoard(flash)
    board.start()

    async def cut(client):
        turn = asyncio.create_task(client.turn("note: the gate code changed"))
        while not (slow.record.exists() and slow.requests()):
            await asyncio.sleep(0.05)
        board.kill()
        return await turn

    lost = with_client(board.port, slow.relay(), cut)
    assert not lost.ok
    assert lost.error
    board.start()
    script = scripted([say("You said the gate code changed.")])
    talk(board.port, script.relay(), "what did I just tell you?")
    board.stop()
    contents = [content for role, content in script.messages() if role == "user"]
    assert "note: the gate code changed" in contents[0]
    assert "what did I just tell you?" in contents[-1]


def test_long_line_arrives_whole(board, scripted):
    """B21: 2,000 bytes and more with Chinese and emoji over a 260-byte buffer."""
    text = "大门密码是 4417 🔑 и ещё. " * 60
    script = scripted([say("ok")])
    (result,) = talk(board.port, script.relay(), text.strip())
    assert result.ok, result.error
    assert script.messages() == [("user", text.strip())]


def test_escaped_emoji_from_the_model(board, scripted):
    """B06: raw server-sent events with an escaped pair reach the board as they are."""
    raw = (
        'data: {"choices":[{"delta":{"content":"hi \\ud83d\\ude00 half \\ud83d end"}}]}\n\n'
        'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    script = scripted([{"for": "chat", "body": raw}, say("two")])
    first, second = talk(board.port, script.relay(), "one", "again")
    assert first.text == "hi 😀 half � end"
    assert second.text == "two"
    assert ("assistant", "hi 😀 half � end") in script.messages()


@pytest.mark.parametrize("options", [["--json"], []])
def test_once_on_the_command_line(flash, scripted, options):
    script = scripted([say("Hello!"), say("Bye!")])
    run = subprocess.run(
        [sys.executable, "-m", "upyclaw_host", "chat", "--sim", "--flash", str(flash)]
        + ["--provider", f"script:{script.script}", "--once", "hi", "--once", "bye", *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    if options:
        turns = [json.loads(line) for line in run.stdout.splitlines()]
        assert [turn["text"] for turn in turns] == ["Hello!", "Bye!"]
        assert {"text", "session", "usage", "heap_free", "ms"} <= set(turns[0])
        assert turns[0]["usage"]["completion_tokens"] == 5
    else:
        assert run.stdout == "Hello!\nBye!\n"


def test_what_is_said_last_is_remembered_too(flash, scripted):
    """`--once` lends its model until the board has taken the fact out of the last line."""
    reply = {
        "action": "store",
        "memories": [{"content": "User loves green tea", "tags": "tea", "keywords": "green tea"}],
    }
    extract = {"for": "extract", "body": completion(json.dumps(reply)), "delay_ms": 1500}
    script = scripted([say("Nice."), extract])
    chat = [sys.executable, "-m", "upyclaw_host", "chat", "--flash", str(flash), "--once"]
    model = ["--provider", f"script:{script.script}"]
    run = subprocess.run(
        [*chat, "I love green tea.", *model], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stdout) == (0, "Nice.\n")
    assert "Memory update: [tea]" in run.stderr
    run = subprocess.run(
        [*chat, "/memory list", *model], capture_output=True, text=True, timeout=60
    )
    assert "User loves green tea" in run.stdout


def test_local_model_remembers(flash):
    """The real small model, a real conversation, a restart between question and answer."""

    def ask(text: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "upyclaw_host", "chat", "--flash", str(flash)]
            + ["--provider", "local", "--once", text],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert ask("The gate code is 4417. Please remember it.").strip()
    assert "4417" in ask("What is the gate code?")


def test_several_turns_grow_the_history(board, scripted):
    script = scripted([say(f"answer {n}") for n in range(5)])
    results = talk(board.port, script.relay(), *[f"question {n}" for n in range(5)])
    assert [r.text for r in results] == [f"answer {n}" for n in range(5)]
    expected = []
    for n in range(4):
        expected += [("user", f"question {n}"), ("assistant", f"answer {n}")]
    assert script.messages() == [*expected, ("user", "question 4")]


def test_tool_round(board, scripted):
    """A tool call is run, its result goes back, both are in the next request."""
    call = completion("")
    call["choices"][0]["message"] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "device_info", "arguments": "{}"},
            }
        ],
    }
    call["choices"][0]["finish_reason"] = "tool_calls"
    script = scripted([{"for": "chat", "body": call}, say("Heap is fine."), say("bye")])
    first, _ = talk(board.port, script.relay(), "how is your heap?", "thanks")
    assert first.text == "Heap is fine."
    tool = [m for m in script.requests()[1]["messages"] if m["role"] == "tool"]
    assert tool[0]["tool_call_id"] == "call_1"
    assert "heap" in tool[0]["content"]
    roles = [m["role"] for m in script.requests()[2]["messages"] if m["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_session_files_read_by_the_companion(board, flash, scripted):
    script = scripted([say("Hello!")])
    talk(board.port, script.relay(), "hi there")
    board.stop()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "upyclaw_host", "session", *words],
            capture_output=True,
            text=True,
            timeout=60,
        )

    listed = json.loads(run("ls", str(flash), "--json").stdout)
    assert "default_01" in json.dumps(listed)
    shown = run("show", str(flash))
    assert "hi there" in shown.stdout and "Hello!" in shown.stdout
    checked = run("verify", str(flash))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_flash_is_where_the_readme_says(flash: Path):
    assert flash.stat().st_size == 2 * 1024 * 1024
