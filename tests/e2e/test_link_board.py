"""The link on a simulated board: real MicroPython behind a PTY, no other part of the firmware."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import serial

from upyclaw_host import resources
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import FirmwareSource
from upyclaw_host.link import CHAT, MODEL, HostLink, LinkDown, frames
from upyclaw_host.sim import SimBoard

BOOT = Path(__file__).parents[1] / "data" / "linkboard"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Firmware with the link and nothing else; its main.py echoes, sends bulk, blocks."""
    package = tmp_path_factory.mktemp("linkboard") / "upyclaw"
    device = resources.device_package()
    shutil.copytree(device / "channels", package / "channels")
    for name in ("__init__.py", "compat.py"):
        shutil.copy(device / name, package / name)
    return FirmwareSource(boot=BOOT, package=package)


@pytest.fixture
def board(tmp_path, source):
    with SimBoard(tmp_path / "flash.img", source=source) as simulated:
        yield simulated


class Client:
    """A session with the link board."""

    def __init__(self, link):
        self.link = link
        self.messages = asyncio.Queue()
        link.on(CHAT, self.messages.put_nowait)
        link.on(MODEL, self.messages.put_nowait)

    async def echo(self, text, timeout=20):
        await self.link.send(CHAT, text)
        return await self.answer(timeout)

    async def answer(self, timeout=20):
        return await asyncio.wait_for(self.messages.get(), timeout)


def with_link(board, body):
    """Run `body(client)` in a session; returns its result."""

    async def main():
        logs = []
        link = await HostLink.open(board.port, on_log=logs.append)
        try:
            await link.hello()
            client = Client(link)
            client.logs = logs
            return await body(client)
        finally:
            await link.close()

    return asyncio.run(main())


def test_b21_a_long_line_while_the_board_is_busy(board):
    text = ("粘贴的长文本 🙂👍🏽 zażółć " * 99).encode()[:2000]

    async def body(client):
        await client.link.control({"op": "block", "ms": 300, "times": 5})
        return await client.echo(text)

    assert with_link(board, body) == text
    assert board.stats.lost == 0


def test_a_request_of_150_kb_leaves_the_board_in_few_bytes_more(board):
    async def body(client):
        await client.link.send(CHAT, b"bulk 150")
        message = await client.answer()
        return message, client.link.stats

    message, stats = with_link(board, body)
    assert message == bytes(range(256)) * 600
    # of 256 byte values 34 are escaped; frames cost 19 bytes in 256
    assert stats.rx_bytes < 1.26 * len(message)
    assert stats.damaged == 0 and board.stats.lost == 0


def test_the_link_takes_little_of_the_heap(board):
    async def body(client):
        return client.link.board

    hello = with_link(board, body)
    # 64-bit figures; the chip needs little more than half of it
    assert hello["code"] < 17_500
    assert hello["data"] < 6_000


def test_a_hard_reset_in_mid_message_is_one_sentence_and_hello_works_again(board):
    async def body(client):
        await client.link.send(CHAT, b"bulk 1000")
        await asyncio.sleep(0.1)
        board.kill()
        with pytest.raises(LinkDown, match="restarted"):
            while True:
                await client.link.send(CHAT, b"x" * 500)
                await client.link.drain()
        assert any("rst:0x1" in line for line in client.logs)
        await client.link.hello()
        while not client.messages.empty():
            client.messages.get_nowait()
        return await client.echo(b"alive")

    assert with_link(board, body) == b"alive"


def test_a_pulled_cable_is_one_sentence(board):
    async def body(client):
        board.unplug()
        await asyncio.wait_for(client.link.closed.wait(), 5)
        with pytest.raises(LinkDown, match="cable"):
            await client.link.send(CHAT, b"x")
        with pytest.raises(LinkDown, match="cable"):
            await client.link.hello()

    with_link(board, body)
    board.plug()
    assert with_link(board, lambda client: client.echo(b"back")) == b"back"


def test_tools_leave_the_board_at_the_prompt_and_hello_starts_it_again(board):
    with_link(board, lambda client: client.echo(b"before"))
    command = [sys.executable, "-m", "mpremote", "connect", board.port, "exec", "print(6 * 7)"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "42", done.stderr

    async def body(client):
        assert any("Ctrl-D" in line for line in client.logs)
        return await client.echo(b"after")

    assert with_link(board, body) == b"after"


def test_a_board_forgotten_in_the_raw_prompt_is_started_again(board):
    with serial.Serial(board.port, timeout=0.5) as port:
        port.write(b"\r\x03\x03")
        time.sleep(0.5)
        port.write(b"\r\x01")
        assert b"raw REPL" in port.read(2000)
    assert with_link(board, lambda client: client.echo(b"after")) == b"after"


def test_a_board_without_our_firmware_is_named(tmp_path, source):
    boot = tmp_path / "boot"
    boot.mkdir()
    (boot / "boot.py").write_text("")
    (boot / "main.py").write_text("print('hello from another program')\n")
    other = FirmwareSource(boot=boot, package=source.package)
    with SimBoard(tmp_path / "flash.img", source=other) as board:
        with pytest.raises(UserError, match="runs MicroPython but not upyclaw"):
            with_link(board, lambda client: client.echo(b"x"))


def test_b23_ten_connections_do_not_reset_the_board(board):
    async def body(client):
        return (await client.link.status())["link"]["rx_bytes"]

    seen = [with_link(board, body) for _ in range(10)]
    # The counters go on: it is the same run of the program all the time.
    assert seen == sorted(seen) and len(set(seen)) == 10


def test_b24_a_lone_byte_and_a_person_at_a_bare_terminal(board):
    with serial.Serial(board.port, timeout=0.3) as port:
        time.sleep(0.5)
        port.read(5000)
        port.write(b"\xe4")
        time.sleep(0.3)
        port.write(b"\xbd\xa0\r")
        seen = b""
        end = time.monotonic() + 10
        while b"typed" not in seen and time.monotonic() < end:
            seen += port.read(500)
        assert b"typed: b'\\xe4\\xbd\\xa0'" in seen, seen
    assert with_link(board, lambda client: client.echo(b"frames again")) == b"frames again"


def test_b24_a_host_that_never_reads_does_not_stop_the_board(board):
    """A client asks for a megabyte and never reads a byte of it; the next one is served."""
    with serial.Serial(board.port) as port:
        time.sleep(0.5)
        port.write(b"\n" + frames.control("Y", digit=1, epoch=9))
        time.sleep(0.3)
        port.write(
            frames.data(CHAT, b"bulk 1000", epoch=9, number=0, seq=0, first=True, last=True)
        )
        time.sleep(3)
    assert with_link(board, lambda client: client.echo(b"[1]")) == b"[1]"
    assert board.stats.sent > 900
