"""A live board as a SOURCE: copies that come short are pulled again, and told if they stay so."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import pytest
from mpremote import transport_serial
from mpremote.transport import TransportError

from upyclaw_host.errors import UserError
from upyclaw_host.source import open_source

_NAME = "data/sessions/s_x_fd0c5087.log"
_DATA = b'{"role":"user","content":"one"}\n'


class _Serial:
    def write(self, data: bytes) -> None:
        pass


class _Board:
    """Answers like a board; `answers` are what its file reads deliver, in order."""

    answers: ClassVar[list[bytes | Exception]] = []
    closed = 0

    def __init__(self, port: str, **_: object) -> None:
        if port != "/dev/fake":
            raise TransportError(f"failed to access {port}")
        self.serial = _Serial()

    def enter_raw_repl(self, soft_reset: bool = True) -> None:
        assert soft_reset is False

    def exit_raw_repl(self) -> None:
        pass

    def exec(self, code: str) -> bytes:
        if "ilistdir" in code:
            return b"%d /%s\r\n" % (len(_DATA), _NAME.encode())
        assert repr("/" + _NAME) in code
        return hashlib.sha256(_DATA).hexdigest().encode() + b"\r\n"

    def fs_readfile(self, path: str, chunk_size: int = 256) -> bytearray:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bytearray(answer)

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def board(monkeypatch):
    monkeypatch.setattr(transport_serial, "SerialTransport", _Board)
    monkeypatch.setattr(_Board, "closed", 0)
    return _Board


def test_a_short_copy_is_pulled_again(board):
    board.answers = [_DATA[:10], b"", _DATA]
    source = open_source(None, port="/dev/fake")
    assert source.files() == {_NAME: len(_DATA)}
    assert source.read(_NAME) == _DATA and not source.findings
    source.close()
    assert board.closed == 1


def test_a_copy_that_stays_short_is_told(board):
    board.answers = [_DATA[:10]] * 3
    source = open_source(None, port="/dev/fake")
    assert source.read(_NAME) == _DATA[:10]
    (finding,) = source.findings
    assert (finding.code, finding.file, finding.offset) == ("short-copy", _NAME, 10)


def test_a_pulled_cable_and_a_wrong_port_are_one_sentence(board):
    board.answers = [TransportError("timeout waiting for first EOF reception")]
    source = open_source(None, port="/dev/fake")
    with pytest.raises(UserError, match="did not come whole"):
        source.read(_NAME)
    with pytest.raises(UserError, match="/dev/other can't be opened"):
        open_source(None, port="/dev/other")
