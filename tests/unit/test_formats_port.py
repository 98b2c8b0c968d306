"""A live board as a SOURCE: copies that come short are pulled again, and told if they stay so."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Callable
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

    def flush(self) -> None:
        pass


class _Board:
    """Answers like a board; `answers` are what its file reads deliver, in order."""

    answers: ClassVar[list[bytes | Exception]] = []
    closed = 0

    def __init__(self, port: str, **_: object) -> None:
        if port != "/dev/fake":
            raise TransportError(f"failed to access {port}")
        self.serial = _Serial()

    def enter_raw_repl(self, soft_reset: bool = True, timeout_overall: float = 10) -> None:
        assert soft_reset is False

    def exit_raw_repl(self) -> None:
        pass

    def exec(self, code: str, data_consumer: Callable[[bytes], None] | None = None) -> bytes:
        if code.startswith("_ul"):
            return b"%d - /%s\r\n" % (len(_DATA), _NAME.encode())
        if code.startswith("_ur"):
            assert repr("/" + _NAME) in code and data_consumer is not None
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            for byte in binascii.b2a_base64(answer) if answer else b"":
                data_consumer(bytes([byte]))
            data_consumer(b"=" + hashlib.sha256(_DATA).hexdigest().encode() + b"\r\n")
        return b""

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
    with pytest.raises(UserError, match="does not answer any more"):
        source.read(_NAME)
    with pytest.raises(UserError, match="There is no port /dev/other"):
        open_source(None, port="/dev/other")
