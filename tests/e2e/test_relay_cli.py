"""`upyclaw relay` on a simulated board: serving, a cable that comes back, Ctrl-C, wrong ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from upyclaw_host.sim import SimBoard


class Running:
    """The command in a process of its own, with what it said so far."""

    def __init__(self, *args: str, env: dict[str, str] | None = None) -> None:
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "upyclaw_host", "relay", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, words: str, count: int = 1, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while self.text.count(words) < count:
            assert time.monotonic() < end, f"{words!r} never came; it said: {self.text}"
            assert self.process.poll() is None, f"it ended; it said: {self.text}"
            time.sleep(0.05)

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(15)
        self._reader.join()
        return code


@pytest.fixture
def script(tmp_path: Path) -> str:
    body = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    path = tmp_path / "script.jsonl"
    path.write_text(json.dumps({"for": "chat", "body": body, "repeat": True}))
    return f"script:{path}"


def test_serves_a_board_and_waits_for_the_cable(flash: Path, script: str, tmp_path: Path) -> None:
    # The port keeps its name over a replug, as /dev/serial/by-id/... does.
    port = tmp_path / "board"
    board = SimBoard(flash)
    port.symlink_to(board.start())
    running = Running("--port", str(port), "--provider", script)
    try:
        running.wait_for("firmware 0.1.0")
        board.kill()
        running.wait_for("waiting for it")
        port.unlink()
        port.symlink_to(board.start())
        running.wait_for("firmware 0.1.0", count=2)
        assert running.end() == 0
        assert "Traceback" not in running.text
    finally:
        running.process.kill()
        board.stop()


def test_a_port_that_is_not_there_is_one_sentence(script: str, tmp_path: Path) -> None:
    running = Running("--port", str(tmp_path / "nothing"), "--provider", script)
    assert running.process.wait(20) == 2
    running._reader.join()
    assert str(tmp_path / "nothing") in running.text and "Traceback" not in running.text


def test_a_broken_config_is_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[openai]\napi_key = "sk-secret-123456\n')
    running = Running("--port", "/dev/null", env={"UPYCLAW_CONFIG": str(config)})
    assert running.process.wait(20) == 2
    running._reader.join()
    assert "line 2" in running.text and "secret" not in running.text
    assert "Traceback" not in running.text
