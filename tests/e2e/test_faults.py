"""Bad input and faults: one clear sentence, a valid session, and a chat that goes on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from unit.invariants import broken_rules

from e2e.rig import completion, say, talk, with_client
from upyclaw_host.chat import ChatClient
from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.relay import Relay, make_provider
from upyclaw_host.sim import SimBoard

HTML = "<html><head><title>Please log in</title></head><body>" + "x" * 3000 + "</body></html>"
CUT = 'data: {"choices":[{"delta":{"content":"The gate code is 44"}}]}\n\n'

FAULTS = {
    "wrong key": ({"status": 401, "body": {"error": {"message": "bad key"}}}, "key"),
    "too many": ({"status": 429, "body": {"error": {"message": "slow down"}}}, "429"),
    "server": ({"status": 500, "body": HTML}, "500"),
    "empty": ({"status": 200, "body": ""}, "empty"),
    "no words": ({"status": 200, "body": completion("")}, "empty"),
    "web page": ({"status": 200, "body": HTML}, "web page"),
    "error inside": ({"status": 200, "body": {"error": {"message": "flagged"}}}, "flagged"),
    "cut": ({"status": 200, "body": CUT}, "broke off"),
}


def one_sentence(text: str | None) -> bool:
    return bool(text) and "\n" not in text and len(text) <= 260 and "Traceback" not in text


@pytest.mark.parametrize("name", list(FAULTS))
def test_provider_fault(board, scripted, name):
    line, word = FAULTS[name]
    script = scripted([say("first"), {"for": "chat", **line}, say("works again")])
    before, bad, after = talk(board.port, script.relay(), "one", "two", "go on")
    assert before.ok and not bad.ok and after.ok
    assert one_sentence(bad.error), bad.error
    assert word in bad.error.lower()
    assert "<" not in bad.error
    assert after.text == "works again"
    request = script.requests()[-1]
    assert broken_rules(request) == []
    text = json.dumps(request, ensure_ascii=False)
    assert "two" in text and "xxx" not in text
    notes = [m["content"] for m in request["messages"] if m["role"] == "assistant"]
    assert "[turn failed:" in notes[-1] and len(notes[-1]) < 100
    if name == "cut":
        assert bad.text.startswith("The gate code is 44")
        assert notes[-1].startswith("The gate code is 44")


def test_provider_down(board, tmp_path, monkeypatch):
    config = tmp_path / "retry.toml"
    config.write_text("[relay]\nretries = 0\n")
    monkeypatch.setenv("UPYCLAW_CONFIG", str(config))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    monkeypatch.setenv("OPENAI_MODEL", "any")
    (turn,) = talk(board.port, Relay(make_provider("openai", load_config())), "hi")
    assert not turn.ok and one_sentence(turn.error)
    assert "127.0.0.1:9" in turn.error and "secret" not in turn.error


def test_no_relay(board):
    (turn,) = talk(board.port, None, "hi")
    assert not turn.ok and one_sentence(turn.error)
    assert "upyclaw relay" in turn.error
    (status,) = talk(board.port, None, "/status")
    assert status.ok and "heap" in status.text


def test_chat_program_killed_in_mid_turn(board, scripted):
    """The relay dies with the program; the board notices, closes the turn, and goes on."""
    slow = scripted([say("never heard", delay_ms=30_000)])
    program = subprocess.Popen(
        [sys.executable, "-m", "upyclaw_host", "chat", "--port", board.port, "--once", "one"]
        + ["--provider", f"script:{slow.script}", "--record", str(slow.record)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 20
    while not (slow.record.exists() and slow.requests()) and time.monotonic() < until:
        time.sleep(0.05)
    program.send_signal(signal.SIGKILL)
    program.wait()
    script = scripted([say("still here")])
    (turn,) = talk(board.port, script.relay(), "two")
    assert turn.ok, turn.error
    assert broken_rules(script.requests()[-1]) == []
    contents = " ".join(content for _, content in script.messages())
    assert "one" in contents and "two" in contents


def test_cable_pulled_in_mid_turn(board, scripted):
    slow = scripted([say("never heard", delay_ms=30_000)])

    async def pull(client: ChatClient):
        turn = asyncio.create_task(client.turn("one"))
        while not (slow.record.exists() and slow.requests()):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(board.unplug)
        return await turn

    lost = with_client(board.port, slow.relay(), pull)
    assert not lost.ok and one_sentence(lost.error)
    port = board.plug()
    script = scripted([say("hello again")])
    (turn,) = talk(port, script.relay(), "two")
    assert turn.ok, turn.error
    assert "one" in " ".join(content for _, content in script.messages())


def test_stop_ends_an_answer(board, scripted):
    script = scripted([say("never heard", delay_ms=30_000), say("next")])

    async def stop(client: ChatClient):
        turn = asyncio.create_task(client.turn("one"))
        while not (script.record.exists() and script.requests()):
            await asyncio.sleep(0.05)
        await client.stop()
        return await asyncio.wait_for(turn, 5), await client.turn("two")

    stopped, following = with_client(board.port, script.relay(), stop)
    assert not stopped.ok and stopped.error == "Stopped."
    assert following.ok and following.text == "next"
    assert broken_rules(script.requests()[-1]) == []


def test_second_line_waits_for_the_first(board, scripted):
    """B38: two lines at once do not mix in the session."""
    script = scripted([say("answer one", delay_ms=700), say("answer two")])

    async def both(client: ChatClient):
        first = asyncio.create_task(client.turn("line one"))
        await asyncio.sleep(0.2)
        second = asyncio.create_task(client.turn("line two"))
        return await first, await second

    first, second = with_client(board.port, script.relay(), both)
    assert (first.text, second.text) == ("answer one", "answer two")
    assert script.messages() == [
        ("user", "line one"),
        ("assistant", "answer one"),
        ("user", "line two"),
    ]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"session":{"limit":"much"}}', b"\xff" * 50])
def test_broken_config(flash, scripted, content):
    with open_image(flash, write=True) as image:
        image.write("/config.json", content)
    script = scripted([say("fine")])
    with SimBoard(flash) as board:
        board.start()

        async def run(client: ChatClient):
            return client.hello["notices"], await client.turn("hi")

        notices, turn = with_client(board.port, script.relay(), run)
    assert turn.ok and turn.text == "fine"
    assert any("config.json" in notice and one_sentence(notice) for notice in notices), notices


def test_damaged_session_is_told_once(flash, scripted):
    """B55, B09: what can be read is used, the user is told once, the damaged file is kept."""
    script = scripted([say("one"), say("two")])
    with SimBoard(flash) as board:
        board.start()
        talk(board.port, script.relay(), "first")
    with open_image(flash, write=True) as image:
        (log,) = [e.path for e in image.walk("/data/sessions") if e.path.endswith(".log")]
        image.write(log, image.read(log) + b'{"role":"user","content":"torn')
    with SimBoard(flash) as board:
        board.start()
        turn, later = talk(board.port, scripted([say("two"), say("three")]).relay(), "a", "b")
    assert turn.ok and later.ok
    assert len(turn.notes) == 1 and one_sentence(turn.notes[0]), turn.notes
    assert later.notes == []


def test_flash_full(flash, scripted):
    """B46: the chat goes on unsaved and says so; freeing space makes saving work again."""
    with open_image(flash, write=True) as image:
        used = image.used_blocks
        image.write("/data/ballast.bin", os.urandom((512 - used - 9) * 4096))
    script = scripted([say("unsaved"), say("still unsaved"), say("saved")])
    with SimBoard(flash) as board:
        board.start()
        first, second = talk(board.port, script.relay(), "one", "two")
    assert first.ok and first.text == "unsaved" and second.text == "still unsaved"
    (note,) = first.notes
    assert note.startswith("This turn is not saved: The flash is full") and one_sentence(note)
    assert note.count("not saved") == 1 and "/session delete" in note
    with open_image(flash, write=True) as image:
        image.remove("/data/ballast.bin")
    with SimBoard(flash) as board:
        board.start()
        script = scripted([say("saved"), say("and known")])
        third, fourth = talk(board.port, script.relay(), "three", "four")
    assert third.ok and third.notes == [] and fourth.ok
    assert ("user", "three") in script.messages()


def cli(*words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "upyclaw_host", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_setting_with_a_typing_error_is_named(tmp_path, monkeypatch):
    config = tmp_path / "typo.toml"
    config.write_text('provder = "openai"\n')
    monkeypatch.setenv("UPYCLAW_CONFIG", str(config))
    run = cli("chat", "--once", "hi", "--provider", f"script:{tmp_path / 'missing.jsonl'}")
    assert run.returncode == 2 and run.stdout == ""
    hint, error = run.stderr.strip().splitlines()
    assert str(config) in hint and "provder" in hint
    assert "missing.jsonl" in error


@pytest.mark.parametrize("content", ["provider = [", "provider = 3", "[openai]\ntimeout = 'x'"])
def test_broken_config_of_the_companion(tmp_path, monkeypatch, content):
    config = tmp_path / "broken.toml"
    config.write_text(content)
    monkeypatch.setenv("UPYCLAW_CONFIG", str(config))
    run = cli("chat", "--once", "hi")
    assert run.returncode == 2 and run.stdout == ""
    assert str(config) in run.stderr and one_sentence(run.stderr.strip())


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_failed_turn_on_the_command_line(board, scripted, options):
    """Exit code 1, the sentence in one line on stderr (in the object with --json)."""
    message = "a long story about the key, told by a server that likes to talk about it at length"
    script = scripted([{"for": "chat", "status": 401, "body": {"error": {"message": message}}}])
    run = cli(
        *("chat", "--port", board.port, "--once", "hi", *options),
        *("--provider", f"script:{script.script}"),
    )
    assert run.returncode == 1, run.stderr
    if options:
        assert message in json.loads(run.stdout)["error"] and run.stderr == ""
    else:
        assert run.stdout.strip() == ""
        (line,) = run.stderr.splitlines()
        assert message in line and len(line) > 100


def test_no_such_port(scripted):
    script = scripted([say("x")])
    run = cli(
        "chat", "--port", "/dev/ttyNOPE7", "--once", "hi", "--provider", f"script:{script.script}"
    )
    assert run.returncode == 2
    assert "/dev/ttyNOPE7" in run.stderr and len(run.stderr.strip().splitlines()) == 1


def test_port_busy(board, scripted):
    script = scripted([say("x")])

    async def second(client: ChatClient):
        return await asyncio.to_thread(
            cli,
            *("chat", "--port", board.port, "--once", "hi"),
            *("--provider", f"script:{script.script}"),
        )

    run = with_client(board.port, script.relay(), second)
    assert run.returncode == 2
    assert board.port in run.stderr and len(run.stderr.strip().splitlines()) == 1


def test_board_without_our_firmware(flash, tmp_path, scripted):
    script = scripted([say("x")])
    with open_image(flash, write=True) as image:
        image.write("/main.py", b"print('blinky')\n")
    with SimBoard(flash, update=False) as board:
        board.start()
        run = cli(
            "chat", "--port", board.port, "--once", "hi", "--provider", f"script:{script.script}"
        )
    assert run.returncode == 2
    assert "not upyclaw" in run.stderr and "install" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_wrong_firmware_version(flash, tmp_path, scripted):
    """A board that speaks another version of the link is named as such."""
    from upyclaw_host.resources import boot_dir, device_package
    from upyclaw_host.sim import FirmwareSource

    package = tmp_path / "upyclaw"
    shutil.copytree(device_package(), package, ignore=shutil.ignore_patterns("__pycache__"))
    control = package / "channels" / "control.py"
    control.write_text(control.read_text().replace("\nVERSION = 1", "\nVERSION = 7"))
    script = scripted([say("x")])
    with SimBoard(flash, source=FirmwareSource(boot_dir(), package)) as board:
        board.start()
        with pytest.raises(UserError) as caught:
            talk(board.port, script.relay(), "hi")
    assert "version" in caught.value.message and one_sentence(caught.value.message)
