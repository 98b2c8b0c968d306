"""B55: a board whose start fails tries again, and after three times starts with what it needs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.rig import say, talk, with_client
from upyclaw_host.chat import ChatClient
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.repl import Repl
from upyclaw_host.resources import boot_dir, device_package
from upyclaw_host.sim import FirmwareSource, SimBoard

FAILED = "/failed_starts.txt"


def broken_firmware(folder: Path, module: str, line: str = 'raise ValueError("bad state")\n'):
    """The firmware with `line` before all else in `module`, without pauses between starts."""
    package = folder / "broken" / "upyclaw"
    shutil.copytree(device_package(), package, ignore=shutil.ignore_patterns("__pycache__"))
    broken = package / module
    text = broken.read_text("utf-8")
    assert line not in text
    broken.write_text(line + text, "utf-8")
    safe = package / "safe.py"
    text = safe.read_text("utf-8")
    assert "\n_PAUSE = 2 " in text
    safe.write_text(text.replace("\n_PAUSE = 2 ", "\n_PAUSE = 0 "), "utf-8")
    return FirmwareSource(boot_dir(), package)


def failed_starts(flash: Path) -> list[str]:
    with open_image(flash) as image:
        return image.read(FAILED).decode().splitlines() if image.exists(FAILED) else []


async def hello(client: ChatClient) -> dict[str, Any]:
    return client.hello


def test_three_failed_starts_end_in_a_serial_chat(flash, tmp_path, scripted):
    with open_image(flash, write=True) as image:
        image.write("/wifi.json", b'[{"ssid": "home", "password": "x"}]')
    script = scripted([say("still here", repeat=True)])
    with SimBoard(flash, source=broken_firmware(tmp_path, "mind.py")) as board:
        board.start()
        (turn,) = talk(board.port, script.relay(), "are you there?")
        (status,) = talk(board.port, script.relay(), "/status")
    assert turn.ok and turn.text == "still here"
    assert status.ok
    assert failed_starts(flash) == ["ValueError('bad state',)"] * 3
    assert "tools" not in script.requests()[0]


def test_the_user_is_told_what_the_last_start_died_of(flash, tmp_path, scripted):
    script = scripted([say("x", repeat=True)])
    with open_image(flash, write=True) as image:
        image.write(FAILED, b"OSError(5,)\nOSError(5,)\nMemoryError('no 9 bytes',)\n")
    with SimBoard(flash) as board:
        board.start()
        notices = with_client(board.port, script.relay(), hello)["notices"]
    (note,) = [line for line in notices if line.startswith("Safe mode")]
    assert "after 3 failed starts (the last: MemoryError('no 9 bytes',))" in note


def test_fewer_than_three_are_no_safe_mode(flash, scripted):
    script = scripted([say("x", repeat=True)])
    with open_image(flash, write=True) as image:
        image.write(FAILED, b"OSError(5,)\nOSError(5,)\n")
    with SimBoard(flash) as board:
        board.start()
        (turn,) = talk(board.port, script.relay(), "Remember: I like tea")
    assert turn.ok and turn.text == "Remembered: I like tea"


def test_a_good_start_ends_the_row(flash, tmp_path, scripted):
    script = scripted([say("x", repeat=True)])
    with open_image(flash, write=True) as image:
        image.write(FAILED, b"OSError(5,)\n")
    source = broken_firmware(tmp_path, "app.py", "# nothing broken here\n")
    app = source.package / "app.py"
    app.write_text(app.read_text("utf-8").replace("_IDLE_MS = 60000", "_IDLE_MS = 50"), "utf-8")
    with SimBoard(flash, source=source) as board:
        board.start()
        talk(board.port, script.relay(), "hi")
    assert failed_starts(flash) == []


def test_firmware_that_cannot_start_at_all_ends_at_the_prompt(flash, tmp_path, scripted):
    """Nothing restarts for ever: the fourth failure leaves the board to the tools."""
    script = scripted([say("x")])
    with SimBoard(flash, source=broken_firmware(tmp_path, "app.py")) as board:
        board.start()
        with pytest.raises(UserError):
            talk(board.port, script.relay(), "hi")
        with Repl(board.port) as repl:
            assert repl.run("print(6 * 7)").strip() == "42"
    assert len(failed_starts(flash)) == 3
