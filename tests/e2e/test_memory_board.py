"""`upyclaw memory` and `upyclaw context` with a running (simulated) board.

The request that the PC makes of a copied flash is the request that the board then sends.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.rig import completion, say, talk, with_client
from upyclaw_host.chat import ChatClient
from upyclaw_host.cli import main
from upyclaw_host.flash.image import open_image
from upyclaw_host.sim import SimBoard


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command; returns (exit code, stdout)."""

    def call(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(one) for one in arguments])
        return int(stop.value.code or 0), capsys.readouterr().out

    return call


FACTS = (
    ("User's bakery is called Sourdough & Sons", "work"),
    ("用户对花生过敏", "健康"),
    ("User's cat is called Mochi", "pets"),
)


@pytest.fixture
def flash(flash: Path, tmp_path: Path) -> Path:
    """A flash with firmware on which some facts are known, as a board stores them."""
    from upyclaw.memory.store import MemoryStore

    folder = tmp_path / "memory"
    store = MemoryStore(folder.as_posix())
    for content, tags in FACTS:
        store.store(content, tags, "", "user")
    store.release()
    with open_image(flash, write=True) as image:
        for path in folder.iterdir():
            image.write(f"/data/memory/{path.name}", path.read_bytes())
    return flash


def _told(value: Any) -> Any:
    """A request without what a relay may add or take away."""
    return {key: one for key, one in value.items() if key not in ("model", "stream_options")}


def test_the_request_is_the_one_that_the_board_sends(flash, scripted, run, tmp_path):
    rig = scripted([say("Nice to meet you."), say("Rain."), say("Mochi!")])
    copy = tmp_path / "copy.img"
    with SimBoard(flash) as board:
        for result in talk(board.port, rig.relay(), "I am Ada.", "How is the weather? 今天"):
            assert result.ok, result
    shutil.copy(flash, copy)
    line = 'What is my "cat" called? 猫'
    code, out = run("context", copy, "--text", line, "--json")
    made = json.loads(out)
    assert code == 0 and made["records_sent"] == made["records"] > 4
    assert "Mochi" in json.dumps(made["body"]["messages"][-1])
    with SimBoard(flash) as board:
        (result,) = talk(board.port, rig.relay(), line)
        assert result.ok
    assert _told(made["body"]) == _told(rig.requests()[-1])
    # The copy was only looked at.
    assert json.loads(run("context", copy, "--text", line, "--json")[1]) == made


def test_a_live_board_is_listed_asked_and_forgets(flash, run):
    with SimBoard(flash) as board:
        code, out = run("memory", "ls", "--port", board.port, "--json")
        items = {item["content"]: item for item in json.loads(out)["items"]}
        assert code == 0 and len(items) == 3 and "用户对花生过敏" in items
        assert {item["source"] for item in items.values()} == {"user"}
        code, out = run("memory", "recall", "--port", board.port, "花生", "--json")
        assert [item["content"] for item in json.loads(out)["items"]] == ["用户对花生过敏"]
        assert run("memory", "verify", "--port", board.port)[0] == 0
        gone = items["User's cat is called Mochi"]["id"]
        code, out = run("memory", "forget", "--port", board.port, gone, "--yes", "--json")
        assert code == 0 and json.loads(out)["forgotten"] == [gone]
        code, out = run("memory", "forget", "--port", board.port, gone, "--yes", "--json")
        assert code == 1 and gone in json.loads(out)["failed"][0]["why"]
        code, out = run("memory", "show", "--port", board.port, gone)
        assert code == 0 and "forgotten" in out
        # All of a source.
        code, out = run("memory", "forget", "--port", board.port, "--source", "user", "--yes")
        assert code == 0 and "2 forgotten" in out
        _, out = run("memory", "ls", "--port", board.port, "--json")
        assert json.loads(out)["total"] == 0


def test_lines_that_need_no_request(flash, scripted, run):
    rig = scripted([say("Hello.")])
    with SimBoard(flash) as board:
        assert talk(board.port, rig.relay(), "Hi")[0].ok
    code, out = run("context", flash, "--text", "记住：我养蜜蜂", "--json")
    told = json.loads(out)
    assert code == 1 and told["body"] is None and "蜜蜂" in told["answer"]
    _, out = run("memory", "ls", flash, "--json")
    assert json.loads(out)["total"] == 3


def test_restarts_add_no_extraction(flash, scripted, run):
    """B07, B34: a fact lands beside the chat, one call a turn; a restart asks nothing again."""
    fact = {"memories": [{"content": "User keeps bees in Riga", "tags": ["bees"]}]}
    replies = [say("Noted."), say("Noted."), say("Hello.")]
    rig = scripted([*replies, {"for": "extract", "body": completion(json.dumps(fact))}])

    def asked() -> int:
        lines = rig.record.read_text("utf-8").splitlines()
        return sum(json.loads(line)["for"] == "extract" for line in lines)

    async def state_and_wait(client: ChatClient) -> None:
        told: list[str] = []
        client.on_notice = told.append
        assert (await client.turn("I keep bees in Riga.")).ok
        for _ in range(100):
            if told:
                break
            await asyncio.sleep(0.1)
        assert told == ["Memory update: [bees]"]

    with SimBoard(flash) as board:
        with_client(board.port, rig.relay(), state_and_wait)
    assert asked() == 1

    async def greet_and_look(client: ChatClient) -> str:
        for line in ("Hi!", "What is the time?"):
            assert (await client.turn(line)).ok
        # The queue is looked at a second after the last turn.
        await asyncio.sleep(2.5)
        return (await client.turn("/status")).text

    with SimBoard(flash) as board:
        status = with_client(board.port, rig.relay(), greet_and_look)
    assert "0 waiting, 0 running, 0 done, 0 failed" in status
    assert asked() == 1
    _, out = run("memory", "ls", flash, "--json")
    assert "User keeps bees in Riga" in [item["content"] for item in json.loads(out)["items"]]
