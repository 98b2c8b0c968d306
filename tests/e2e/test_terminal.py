"""The terminal chat in a real pseudo terminal: typed lines, a paste, streamed words, Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.rig import completion, say

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Person:
    """Somebody at a terminal that runs `upyclaw chat`."""

    def __init__(self, *words: str, home: Path) -> None:
        self.raw = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(HOME=str(home), XDG_STATE_HOME=str(home), TERM="xterm")
            os.execv(sys.executable, [sys.executable, "-m", "upyclaw_host", "chat", *words])

        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def read(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    data = os.read(self.fd, 4096)
                except OSError:
                    return
                self.raw += data
                if b"\x1b[6n" in data:
                    # A terminal answers where its cursor is.
                    os.write(self.fd, b"\x1b[5;1R")

    @property
    def seen(self) -> str:
        return _ESCAPES.sub("", self.raw.decode("utf-8", "replace"))

    def wait(self, words: str, seconds: float = 20) -> str:
        until = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < until, f"{words!r} did not come; seen: {self.seen[-600:]!r}"
            self.read(0.1)
        return self.seen

    def type(self, text: str) -> None:
        self.raw = b""
        os.write(self.fd, text.encode())

    def leave(self) -> int:
        os.write(self.fd, b"\x04")
        return self.gone()

    def gone(self) -> int:
        until = time.monotonic() + 15
        while time.monotonic() < until:
            self.read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("chat did not end on Ctrl-D")


@pytest.fixture
def person(flash: Path, tmp_path: Path, scripted) -> Iterator[tuple[Person, object]]:
    script = scripted(
        [
            say("First answer."),
            say("Second answer."),
            say("Too late.", delay_ms=20_000),
            say("word " * 200),
        ]
    )
    someone = Person(
        "--flash",
        str(flash),
        "--provider",
        f"script:{script.script}",
        "--record",
        str(script.record),
        home=tmp_path,
    )
    yield someone, script
    try:
        os.kill(someone.pid, signal.SIGKILL)
        os.waitpid(someone.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    os.close(someone.fd)


def test_a_conversation_at_the_terminal(person):
    someone, script = person
    someone.wait("session default_01")
    someone.wait("heap")
    someone.type("hello there\r")
    assert "board> First answer." in someone.wait("First answer.")
    someone.wait("you>")
    someone.type("\x1b[200~one line\nand another\x1b[201~")
    someone.read(0.3)
    someone.type("\r")
    someone.wait("Second answer.")
    assert script.messages()[-1] == ("user", "one line\nand another")
    someone.wait("you>")
    someone.type("tell me\r")
    until = time.monotonic() + 20
    while len(script.requests()) < 3:
        assert time.monotonic() < until, someone.seen
        someone.read(0.05)
    someone.wait("Ctrl-C stops it")
    someone.type("\x03")
    someone.wait("Stopped.")
    someone.wait("you>")
    someone.type("go on\r")
    someone.wait("word word word")
    someone.wait("you>")
    someone.type("/status\r")
    someone.wait("model: ")
    someone.wait("you>")
    assert someone.leave() == 0


def test_keys_pressed_during_an_answer_wait_for_the_prompt(flash, tmp_path, scripted):
    script = scripted([say("Slow.", delay_ms=3000), say("Next.")])
    model = ["--provider", f"script:{script.script}", "--record", str(script.record)]
    someone = Person("--flash", str(flash), *model, home=tmp_path)
    someone.wait("you>")
    someone.type("hi\r")
    while not script.record.exists():
        someone.read(0.05)
    someone.type("ok\r\x04")
    someone.read(1)
    assert "ok" not in someone.seen
    someone.wait("Next.")
    assert someone.gone() == 0
    assert script.messages()[-1] == ("user", "ok")
    os.close(someone.fd)


def test_leaving_waits_for_the_memory_but_not_against_ones_will(flash, tmp_path, scripted):
    slow = {"for": "extract", "body": completion("{}"), "delay_ms": 4000, "repeat": True}
    script = scripted([say("Nice.", repeat=True), slow])
    for patience in (True, False):
        model = ["--provider", f"script:{script.script}"]
        someone = Person("--flash", str(flash), *model, home=tmp_path)
        someone.wait("you>")
        someone.type("I love green tea.\r")
        someone.wait("Nice.")
        someone.wait("you>")
        left = time.monotonic()
        os.write(someone.fd, b"\x04")
        someone.wait("Ctrl-C leaves at once")
        if not patience:
            os.write(someone.fd, b"\x03")
        assert someone.gone() == 0
        assert (time.monotonic() - left > 3) == patience
        os.close(someone.fd)
