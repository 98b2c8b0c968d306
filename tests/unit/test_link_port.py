"""Ports: what cannot be opened is named; opening and closing resets nothing (B23)."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
import threading

import pytest
import serial

from upyclaw_host.errors import UserError
from upyclaw_host.link import SerialTransport
from upyclaw_host.link.ports import port_error


@pytest.fixture
def terminal():
    """A pseudo terminal: (descriptor of the board's side, name of the port)."""
    board, port = pty.openpty()
    yield board, os.ttyname(port)
    for descriptor in (board, port):
        try:
            os.close(descriptor)
        except OSError:
            pass


def test_a_missing_port_is_named():
    with pytest.raises(UserError, match=r"There is no port /dev/ttyNOWHERE.*--port"):
        SerialTransport("/dev/ttyNOWHERE")


def test_a_file_is_no_port(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(UserError, match="is not a serial port"):
        SerialTransport(str(path))


def test_a_port_in_use_is_refused(terminal):
    first = SerialTransport(terminal[1])
    try:
        with pytest.raises(UserError, match="in use by another program"):
            SerialTransport(terminal[1])
    finally:
        first.close()
    SerialTransport(terminal[1]).close()


def test_no_permission_says_which_group():
    error = port_error("/dev/null", PermissionError(13, "Permission denied"))
    assert "No permission to open /dev/null" in error.message
    assert "usermod -aG root" in error.message


def test_the_control_lines_are_left_alone(terminal, monkeypatch):
    """Both stay raised, as the system does on opening: never a moment in which they differ."""
    levels = []

    for name in ("dtr", "rts"):
        monkeypatch.setattr(
            serial.Serial,
            f"_update_{name}_state",
            lambda port, name=name: levels.append((name, getattr(port, f"_{name}_state"))),
        )
    transport = SerialTransport(terminal[1])
    transport.close()
    assert levels == [("dtr", True), ("rts", True)]


def test_hang_up_on_close_is_off(terminal):
    transport = SerialTransport(terminal[1])
    descriptor = os.open(terminal[1], os.O_RDWR | os.O_NOCTTY)
    try:
        assert not termios.tcgetattr(descriptor)[2] & termios.HUPCL
    finally:
        os.close(descriptor)
        transport.close()


def test_bytes_travel_and_the_end_of_the_line_is_reported(terminal):
    board, name = terminal
    transport = SerialTransport(name)
    got, ended = bytearray(), threading.Event()
    arrived = threading.Event()

    def on_data(data):
        got.extend(data)
        if len(got) >= 260:
            arrived.set()

    transport.start(on_data, lambda text: ended.set())
    os.write(board, bytes(range(256)) + b"~uR\n")
    assert arrived.wait(5)
    assert bytes(got) == bytes(range(256)) + b"~uR\n"
    transport.write(b"\x00\x03\r\n\xff")
    assert os.read(board, 100) == b"\x00\x03\r\n\xff"
    os.close(board)
    assert ended.wait(5)
    transport.close()


def test_a_port_where_nobody_answers(terminal):
    from upyclaw_host.link import HostLink

    async def main():
        link = await HostLink.open(terminal[1])
        try:
            with pytest.raises(UserError, match=r"No answer from .* within 1 s"):
                await link.hello(timeout=0.6)
        finally:
            await link.close()

    asyncio.run(main())
