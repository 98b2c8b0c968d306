"""A host link and the board's link on one simulated line, in simulated time.

Owns the line: baud rate, the board's input buffer of 260 bytes that drops what does not fit,
damage to lines, noise, a board that is busy. The clock jumps, so that seconds cost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from upyclaw.channels import link as device_link
from upyclaw.channels.control import Control
from upyclaw.channels.link import Link
from upyclaw.llm import link_client as device_client
from upyclaw_host.link import HostLink

BOARD_RX = 260


class JumpSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Instead of sleeping, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits and nothing is due: a deadlock")
            self.now += timeout
        return ready


class JumpLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while everybody sleeps."""

    def __init__(self) -> None:
        self._jump = JumpSelector()
        super().__init__(self._jump)
        # call_soon_threadsafe of the loop's own socket pair is not needed here
        self.now_limit = 10_000.0

    def time(self) -> float:
        if self._jump.now > self.now_limit:
            raise RuntimeError("hours have passed")
        return self._jump.now

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run `main()` in simulated time."""
    loop = JumpLoop()
    clocks = (device_link, device_client)
    before = [module.ticks_ms for module in clocks]
    for module in clocks:
        module.ticks_ms = lambda: int(loop.time() * 1000)
    try:
        return loop.run_until_complete(main())
    finally:
        for module, clock in zip(clocks, before, strict=True):
            module.ticks_ms = clock
        with contextlib.suppress(Exception):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class BoardPort:
    """The port as the board sees it (channels/serial.py says what a port is)."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.input = bytearray()
        self.arrived = asyncio.Event()

    async def wait(self) -> None:
        while not self.input:
            self.arrived.clear()
            await self.arrived.wait()
        while self._rig.busy_until > self._rig.loop.time():
            await asyncio.sleep(self._rig.busy_until - self._rig.loop.time())

    def readinto(self, buf: bytearray) -> int:
        n = min(len(buf), len(self.input))
        buf[:n] = self.input[:n]
        del self.input[:n]
        return n

    def write(self, data: memoryview) -> int:
        if self._rig.host_deaf:
            return 0
        self._rig.to_host(bytes(data))
        return len(data)


class HostTransport:
    """The port as the host sees it."""

    name = "rig"

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_error: Callable[[str], None] = lambda text: None
        self.pulled = False

    def start(self, on_data: Callable[[bytes], None], on_error: Callable[[str], None]) -> None:
        self.on_data, self.on_error = on_data, on_error

    def write(self, data: bytes) -> None:
        if self.pulled:
            raise OSError(5, "Input/output error")
        self._rig.to_board(data)

    def close(self) -> None:
        self.pulled = True


class Rig:
    """`damage(line, rng) -> list of lines` decides what becomes of each line on the wire."""

    def __init__(
        self,
        seed: int = 0,
        damage: Callable[[bytes, random.Random], list[bytes]] | None = None,
        byte_s: float = 10 / 115200,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.rng = random.Random(seed)
        self.damage = damage
        self.byte_s = byte_s
        self.busy_until = 0.0
        self.host_deaf = False
        self.most_unread = 0
        self.dropped = 0
        self.logs: list[str] = []
        self._free = {"host": 0.0, "board": 0.0}
        self._cut = {"host": b"", "board": b""}
        self.port = BoardPort(self)
        self.transport = HostTransport(self)
        self.host = HostLink(self.transport, on_log=self.logs.append)
        self.start_board()

    def start_board(self, info: Callable[[], dict[str, Any]] | None = None) -> None:
        """Start the board's side (again: a reset)."""
        for task in getattr(self, "tasks", []):
            task.cancel()
        self.port.input.clear()
        self.link = Link(self.port, self.logs.append)
        self.control = Control(self.link, info or (lambda: {"board": "rig", "line": 8192}))
        self.tasks = [
            self.loop.create_task(self.link.run()),
            self.loop.create_task(self.control.run()),
        ]

    def to_board(self, data: bytes) -> None:
        self._travel("board", data, self._board_gets)

    def to_host(self, data: bytes) -> None:
        self._travel("host", data, lambda piece: self.transport.on_data(piece))

    def _travel(self, name: str, data: bytes, arrive: Callable[[bytes], None]) -> None:
        whole = self._cut[name] + data
        lines = whole.split(b"\n")
        self._cut[name] = lines.pop()
        out = b""
        for line in lines:
            piece = line + b"\n"
            out += b"".join(self.damage(piece, self.rng) if self.damage else [piece])
        if not out:
            return
        start = max(self._free[name], self.loop.time())
        self._free[name] = start + len(out) * self.byte_s
        # arrive in small pieces, as on a real line
        for at in range(0, len(out), 32):
            piece = out[at : at + 32]
            self.loop.call_at(start + (at + len(piece)) * self.byte_s, arrive, piece)

    def _board_gets(self, data: bytes) -> None:
        room = BOARD_RX - len(self.port.input)
        self.dropped += max(0, len(data) - room)
        self.port.input += data[:room]
        self.most_unread = max(self.most_unread, len(self.port.input))
        self.port.arrived.set()

    async def keep_busy(self, every: float, busy: float) -> None:
        """The board blocks for `busy` seconds out of `every` (its input fills up meanwhile)."""
        while True:
            await asyncio.sleep(every - busy)
            self.busy_until = self.loop.time() + busy
            await asyncio.sleep(busy)


def faulty(
    lose: float = 0.0, double: float = 0.0, garble: float = 0.0, noise: float = 0.0
) -> Callable[[bytes, random.Random], list[bytes]]:
    """Damage with these probabilities, each 0..1."""

    def damage(line: bytes, rng: random.Random) -> list[bytes]:
        if rng.random() < lose:
            return []
        if rng.random() < garble:
            broken = bytearray(line)
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            if rng.random() < 0.3:
                del broken[rng.randrange(len(broken)) :]
            line = bytes(broken)
        out = [line]
        if rng.random() < double:
            out.append(line)
        if rng.random() < noise:
            out.insert(0, rng.choice(NOISE))
        return out

    return damage


NOISE = [
    b"ets Jul 29 2019 12:21:46\r\n",
    b"rst:0x1 (POWERON_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)\r\n",
    b"I (123) wifi:wifi driver task: 3ffc5b4c, prio:23\r\n",
    b"no line end ",
    b"\xff\x00\x7f~u\n",
]
