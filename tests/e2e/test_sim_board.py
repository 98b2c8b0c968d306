"""The simulated board behaves as a board: unmodified tools get in, resets are resets, flash holds.

The app here is a stand-in of a few lines; the real firmware has tests of its own.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial

from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.sim import FirmwareSource, SimBoard, build_flash

REPOSITORY = Path(__file__).resolve().parents[2]
APP = """
import asyncio, gc, os, select, sys, time

def serve(line):
    word, _, rest = line.partition(" ")
    if word == "busy":
        time.sleep_ms(int(rest))
        print("was busy")
    elif word == "log":
        for i in range(int(rest)):
            with open("/log", "a") as f:
                f.write("%d\\n" % i)
            print("ack %d" % i)
    elif word == "flood":
        for i in range(int(rest)):
            print("x" * 99)
        print("flooded")
    elif word == "collect":
        print("collecting")
        while True:
            gc.collect()
    elif word == "reset":
        import machine
        machine.reset()
    else:
        print("got", len(line), line[:20])

async def run():
    print("app up", gc.mem_free())
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN)
    line = b""
    while True:
        if not poll.poll(0):
            await asyncio.sleep_ms(1)
            continue
        c = sys.stdin.buffer.read(1)
        if c == b"\\n":
            serve(line.decode())
            line = b""
        else:
            line += c

def main():
    asyncio.run(run())
"""


class Terminal:
    """The port as a person's terminal: type, and wait for words."""

    def __init__(self, port: str) -> None:
        self.serial = serial.Serial(port, 115200, timeout=0.02)
        self.seen = b""

    def type(self, data: bytes) -> None:
        self.serial.write(data)

    def wait(self, words: bytes, timeout: float = 8.0) -> bytes:
        """What came up to and with `words`; the rest stays for the next call."""
        end = time.monotonic() + timeout
        while words not in self.seen:
            assert time.monotonic() < end, f"{words!r} did not come, but {self.seen[-2000:]!r}"
            self.seen += self.serial.read(4096)
        before, found, self.seen = self.seen.partition(words)
        return before + found

    def close(self) -> None:
        self.serial.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FirmwareSource:
    package = tmp_path_factory.mktemp("firmware") / "upyclaw"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "app.py").write_text(APP)
    return FirmwareSource(REPOSITORY / "firmware", package)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, source: FirmwareSource) -> Path:
    path = tmp_path_factory.mktemp("flash") / "stand-in.img"
    build_flash(path, source=source)
    return path


@pytest.fixture
def image(tmp_path: Path, template: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "flash.img"))


@pytest.fixture
def board(image: Path, source: FirmwareSource) -> Iterator[SimBoard]:
    with SimBoard(image, source=source) as simulated:
        yield simulated


@pytest.fixture
def terminal(board: SimBoard) -> Iterator[Terminal]:
    opened = Terminal(board.port)
    # What the board said before the port was open may be gone.
    opened.type(b"hello\n")
    opened.wait(b"got 5 hello")
    yield opened
    opened.close()


def tool(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name(arguments[0])), *arguments[1:]]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, f"{arguments}: {result.stdout} {result.stderr}"
    return result.stdout


def test_the_app_runs_from_the_image_within_the_heap(board: SimBoard, terminal: Terminal) -> None:
    terminal.type(b"\x03")
    terminal.wait(b">>> ")
    terminal.type(b"import os; os.listdir('/'), os.listdir('/upyclaw')\r")
    listing = terminal.wait(b">>> ")
    package = b"['__init__.mpy', 'app.mpy', 'board.txt', 'files.txt']"
    assert b"(['boot.py', 'main.py', 'upyclaw'], %s)" % package in listing
    terminal.type(b"import gc; gc.collect(); gc.mem_free() > 165000\r")
    assert b"True" in terminal.wait(b">>> ")
    terminal.type(b"len(bytearray(192 * 1024))\r")
    assert b"MemoryError" in terminal.wait(b">>> ")


def test_mpremote_and_ampy_get_in_while_the_app_runs(
    board: SimBoard, terminal: Terminal, tmp_path: Path
) -> None:
    port = board.port
    terminal.close()
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('ran on', sys.implementation.name)\n")
    big = tmp_path / "big.bin"
    big.write_bytes(random.Random(1).randbytes(3000))
    for turn in range(3):
        # Each round begins with the app running.
        board.reset()
        ready = Terminal(port)
        ready.type(b"hi\n")
        ready.wait(b"got 2 hi")
        ready.close()
        first = turn % 3
        calls = [
            lambda: "main.py" in tool("mpremote", "connect", port, "fs", "ls"),
            lambda: "/main.py" in tool("ampy", "--port", port, "ls"),
            lambda: tool("mpremote", "connect", port, "exec", "print(6*7)").strip() == "42",
        ]
        for call in calls[first:] + calls[:first]:
            assert call()
        assert "ran on micropython" in tool("mpremote", "connect", port, "run", str(script))
        tool("mpremote", "connect", port, "fs", "cp", str(big), f":big{turn}.bin")
        back = tmp_path / "back.bin"
        tool("mpremote", "connect", port, "fs", "cp", f":big{turn}.bin", str(back))
        assert back.read_bytes() == big.read_bytes()
        tool("ampy", "--port", port, "put", str(script), f"s{turn}.py")
        assert "ran on" in tool("ampy", "--port", port, "get", f"s{turn}.py")
        tool("mpremote", "connect", port, "soft-reset")
        assert tool("mpremote", "connect", port, "exec", "print(1)").strip() == "1"
    assert board.stats.lost == 0
    board.stop()
    with open_image(board.flash) as opened:
        assert opened.read("/big2.bin") == big.read_bytes()


def test_ctrl_c_ctrl_d_and_input_typed_ahead(board: SimBoard, terminal: Terminal) -> None:
    terminal.type(b"\x03")
    assert b"KeyboardInterrupt" in terminal.wait(b">>> ")
    terminal.type(b"a = 20\rb = 22\rprint('sum', a + b)\r")
    terminal.wait(b"sum 42\r\n")
    terminal.wait(b">>> ")
    terminal.type(b"while True: pass\r\r")
    time.sleep(0.2)
    terminal.type(b"\x03")
    assert b"KeyboardInterrupt" in terminal.wait(b">>> ")
    terminal.type(b"\x04")
    terminal.wait(b"MPY: soft reboot\r\n")
    assert b"ets Jul" not in terminal.wait(b"app up")


def test_ctrl_c_at_any_moment_leaves_a_board_that_answers(
    board: SimBoard, terminal: Terminal
) -> None:
    moments = random.Random(7)
    for round_number in range(12):
        for _ in range(moments.randrange(1, 5)):
            terminal.type(b"\x03" * moments.randrange(1, 3))
            time.sleep(moments.choice((0, 0.001, 0.01)))
        terminal.type(b"\r\x01")
        terminal.wait(b"raw REPL; CTRL-B to exit\r\n>")
        terminal.type(b"print('round', %d)\x04" % round_number)
        terminal.wait(b"OKround %d" % round_number)
        terminal.type(b"\x02\x04")
        terminal.wait(b"app up")
        time.sleep(moments.choice((0, 0.005, 0.05)))
    assert board.failure is None


def test_ctrl_c_in_a_garbage_collection_leaves_the_heap_usable(
    board: SimBoard, terminal: Terminal
) -> None:
    for _ in range(8):
        terminal.type(b"collect\n")
        terminal.wait(b"collecting")
        terminal.type(b"\x03")
        assert b"KeyboardInterrupt" in terminal.wait(b">>> ")
        terminal.type(b"print(len(bytearray(50000)))\r")
        terminal.wait(b"\n50000\r\n")
        terminal.type(b"\x04")
        terminal.wait(b"app up")


def test_tools_get_in_at_any_moment_of_the_start(image: Path, source: FirmwareSource) -> None:
    events: list[str] = []
    with SimBoard(image, source=source, on_event=events.append) as board:
        terminal = Terminal(board.port)
        for wait_ms in range(0, 90, 3):
            board.kill()
            time.sleep(wait_ms / 1000)
            # What mpremote sends, once and without a second try.
            terminal.type(b"\r\x03")
            terminal.type(b"\r\x01")
            terminal.wait(b"raw REPL; CTRL-B to exit\r\n>")
            terminal.type(b"print(len(bytearray(50000)))\x04")
            terminal.wait(b"OK50000\r\n\x04\x04>")
        terminal.close()
    assert not events, "something ended by itself"


def test_resets_make_the_noise_of_a_chip(board: SimBoard, terminal: Terminal) -> None:
    terminal.type(b"reset\n")
    assert b"rst:0xc (SW_CPU_RESET)" in terminal.wait(b"app up")
    board.kill()
    assert b"rst:0x1 (POWERON_RESET)" in terminal.wait(b"app up")
    board.reset()
    assert b"rst:" not in terminal.wait(b"app up")
    board.power_off()
    assert not board.powered
    terminal.type(b"lost\n")
    time.sleep(0.05)
    assert board.start() == board.port
    assert b"got" not in terminal.wait(b"app up")


def test_kill_loses_nothing_that_was_acknowledged(board: SimBoard, terminal: Terminal) -> None:
    moments = random.Random(3)
    for _ in range(4):
        terminal.type(b"log 2000\n")
        terminal.wait(b"ack %d\r" % moments.randrange(5, 60))
        time.sleep(moments.random() / 50)
        board.kill()
        said = terminal.wait(b"app up")
        terminal.type(b"\x03")
        terminal.wait(b">>> ")
        last = [int(word) for word in said.split(b"ack ")[1:-1] for word in word.split()[:1]]
        board.power_off()
        with open_image(board.flash) as opened:
            lines = opened.read("/log").decode().splitlines()
        # The runs before this one left their lines too.
        start = len(lines) - 1 - lines[::-1].index("0")
        written = [int(line) for line in lines[start:]]
        assert written == list(range(len(written)))
        assert not last or len(written) > last[-1]
        board.start()
        terminal.wait(b"app up")


def test_a_power_cut_inside_a_flash_operation_spares_what_was_written(
    board: SimBoard, terminal: Terminal
) -> None:
    acknowledged = 0
    for operation in (1, 2, 7, 23, 60, 61):
        board.cut_power_at(operation)
        terminal.wait(b"app up")
        terminal.type(b"log 2000\n")
        end = time.monotonic() + 5
        while board.powered and time.monotonic() < end:
            time.sleep(0.01)
        assert not board.powered
        board.start()
        said = terminal.wait(b"app up")
        acknowledged += said.count(b"ack ")
        with open_image(board.flash) as opened:
            lines = opened.read("/log").splitlines() if opened.exists("/log") else []
        assert acknowledged <= len(lines) <= acknowledged + 6
    assert acknowledged > 20


def test_what_overflows_the_uart_is_lost(board: SimBoard, terminal: Terminal) -> None:
    terminal.type(b"busy 300\n")
    time.sleep(0.1)
    terminal.type(b"z" * 300)
    terminal.wait(b"was busy")
    assert board.stats.lost == 40
    terminal.type(b"\n")
    terminal.wait(b"got 260 z")


def test_the_raw_prompt_keeps_up_with_code_sent_in_one_go(
    board: SimBoard, terminal: Terminal
) -> None:
    terminal.type(b"\x03\r\x01")
    terminal.wait(b"raw REPL; CTRL-B to exit\r\n>")
    terminal.type(b"print(len('" + b"z" * 3000 + b"'))\x04")
    terminal.wait(b"OK3000\r\n")
    assert board.stats.lost == 0


def test_output_that_nobody_reads_does_not_stop_the_board(
    board: SimBoard, terminal: Terminal
) -> None:
    terminal.type(b"flood 5000\n")
    time.sleep(2.5)
    assert board.stats.unread > 100_000
    terminal.serial.reset_input_buffer()
    terminal.seen = b""
    terminal.type(b"hello\n")
    terminal.wait(b"got 5 hello")


def test_a_reader_that_keeps_up_loses_nothing(terminal: Terminal) -> None:
    terminal.type(b"flood 8000\n")
    assert terminal.wait(b"flooded").count(b"x" * 99 + b"\r\n") == 8000


def test_pulling_the_cable_leaves_the_app_running(board: SimBoard, terminal: Terminal) -> None:
    board.unplug()
    with pytest.raises((serial.SerialException, OSError)):
        for _ in range(50):
            terminal.serial.write(b"x")
            if not terminal.serial.read(1):
                terminal.serial.in_waiting  # noqa: B018
    with pytest.raises(UserError, match="unplugged"):
        _ = board.port
    again = Terminal(board.plug())
    again.type(b"still there\n")
    assert b"app up" not in again.wait(b"got 11 still")
    again.close()


def test_baud_rate_slows_the_line(image: Path, source: FirmwareSource) -> None:
    with SimBoard(image, baud=19200, source=source) as board:
        terminal = Terminal(board.port)
        terminal.type(b"\n")
        terminal.wait(b"got 0")
        start = time.monotonic()
        terminal.type(b"q" * 576 + b"\n")
        terminal.wait(b"got 576 q")
        assert 0.25 < time.monotonic() - start < 2
        assert board.stats.lost == 0
        terminal.close()


def test_an_image_that_does_not_fit_or_is_in_use_is_refused(
    board: SimBoard, source: FirmwareSource, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="in use"):
        SimBoard(board.flash, source=source).start()
    with pytest.raises(UserError, match="There is no board called"):
        SimBoard(tmp_path / "x.img", "nonesuch")
    other = tmp_path / "other.img"
    build_flash(other, blocks=128, source=source)
    small = SimBoard(other, source=source)
    with pytest.raises(UserError, match="524288 bytes"):
        small.start()
    broken = tmp_path / "broken.img"
    broken.write_bytes(b"\xff" * 2097152)
    with pytest.raises(UserError, match="holds no LittleFS"):
        SimBoard(broken, source=source).start()
    assert broken.read_bytes() == b"\xff" * 2097152


def children_of(parent: int) -> list[int]:
    """Living processes below `parent` (a defunct one that nobody has waited for is not living)."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="],
        capture_output=True,
        text=True,
        check=True,
    )
    processes = [line.split() for line in listing.stdout.splitlines()]
    return [
        int(pid)
        for pid, above, state in processes
        if int(above) == parent and not state.startswith("Z")
    ]


def is_living(pid: int) -> bool:
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    state = listing.stdout.strip()
    return bool(state) and not state.startswith("Z")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_upyclaw_sim_prints_its_port_and_leaves_no_process(
    image: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "upyclaw_host", "sim", "--flash", str(image), "--json"]
    command += ["--keep-firmware"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    port = json.loads(process.stdout.readline())["port"]
    terminal = Terminal(port)
    terminal.type(b"hello\n")
    terminal.wait(b"got 5 hello")
    terminal.close()
    boards = children_of(process.pid)
    assert len(boards) == 1
    process.send_signal(number)
    process.wait(timeout=5)
    process.stdout.close()
    deadline = time.monotonic() + 5
    while is_living(boards[0]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_living(boards[0])
    with open_image(image, write=True) as opened:
        assert opened.exists("/main.py")
