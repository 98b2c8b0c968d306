"""A simulated board that serves its page on loopback, and a bare client of its WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import websockets

from e2e.rig import Scripted
from upyclaw_host.boards import load_board
from upyclaw_host.chat import ChatClient, TurnResult
from upyclaw_host.flash.image import open_image
from upyclaw_host.sim import SimBoard, build_flash

BOARD = "esp32_s3"  # the page is meant for boards with PSRAM; bench/web.py measures the others


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def make_flash(path: Path) -> Path:
    """A flash image of the board that serves the page."""
    spec = load_board(BOARD)
    build_flash(path, blocks=spec.blocks, board=spec)
    return path


def _memory(folder: Path, facts: tuple[tuple[str, str], ...]) -> dict[str, bytes]:
    """The files of a long-term memory that holds `facts`, made by the board's own code."""
    if not facts:
        return {}
    from upyclaw.memory.store import MemoryStore

    store = MemoryStore(str(folder))
    for content, tags in facts:
        store.store(content, tags)
    store.flush()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class WebBoard:
    """The board, its serial chat with the model behind it, and the links to its page."""

    def __init__(
        self,
        folder: Path,
        template: Path,
        script: Scripted,
        model: dict[str, Any] | None = None,
        wifi: Path | None = None,
        facts: tuple[tuple[str, str], ...] = (),
        waits: bool = True,
        **settings: Any,
    ) -> None:
        self.flash = folder / "flash.img"
        shutil.copy(template, self.flash)
        self.port = free_port()
        web = {"enabled": "on", "host": "127.0.0.1", "port": self.port, **settings}
        config = {"name": "desk", "web": web, "network": {"access_point": "off"}}
        if model:
            config["model"] = model
        with open_image(self.flash, write=True) as image:
            image.write("/config.json", json.dumps(config).encode())
            if wifi:
                known = {"networks": [{"ssid": "Home", "password": "Tulip-4711-xyz"}]}
                image.write("/wifi.json", json.dumps(known).encode())
            for name, data in _memory(folder / "memory", facts).items():
                image.write(f"/data/memory/{name}", data)
        self.script = script
        self.board = SimBoard(self.flash, BOARD, network=wifi, update=False)
        self.logs: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client: ChatClient
        self.start(waits)

    def start(self, waits: bool = True) -> None:
        """Switch on, connect the serial chat, wait for the page (`waits`)."""
        self.board.start()
        self.client = self._do(
            ChatClient.connect(self.board.port, self.script.relay(), on_log=self.logs.append)
        )
        if waits:
            self._find_page()

    def _find_page(self) -> None:
        for _ in range(40):
            try:
                links = self._do(self.client.link.ask({"op": "web"}, timeout=1))
            except Exception:
                continue
            self.owner = links["url"].split("#")[1]
            self.guest = links["guest"].split("#")[1]
            self.home = links["url"].split("#")[0]
            self.link = links["url"]
            self.guest_link = links["guest"]
            return
        raise AssertionError(f"no page: {self.logs}")

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    def serial(self, text: str) -> TurnResult:
        """One turn of the serial chat."""
        result = self._do(self.client.turn(text))
        assert isinstance(result, TurnResult)
        return result

    def close(self) -> None:
        self._do(self.client.close())
        self.board.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@contextlib.contextmanager
def web_board(
    folder: Path, template: Path, lines: list[dict[str, Any]], **settings: Any
) -> Iterator[WebBoard]:
    """`settings` are those of the page, but for these: `model`; `wifi`, a scripted world of Wi-Fi;
    `facts`, what the board remembers, (content, tags) each; `waits` False: for no page.
    """
    board = WebBoard(folder, template, Scripted(folder, lines), **settings)
    try:
        yield board
    finally:
        board.close()


class Page:
    """What the page's script does, without a browser."""

    def __init__(self, ws: Any) -> None:
        self.ws = ws
        self.events: list[dict[str, Any]] = []
        self._last = 0

    async def receive(self, timeout: float = 15) -> dict[str, Any]:
        message = json.loads(await asyncio.wait_for(self.ws.recv(), timeout))
        assert isinstance(message, dict)
        return message

    async def login(self, token: str, user: str = "me") -> dict[str, Any]:
        await self.ws.send(json.dumps({"op": "login", "token": token, "user": user}))
        return await self.receive()

    async def send(self, op: str, **fields: Any) -> int:
        self._last += 1
        await self.ws.send(json.dumps({"id": self._last, "op": op, **fields}))
        return self._last

    async def end(self, ident: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """(items and events of question `ident`, its end); the others are kept in `events`."""
        items = []
        while True:
            message = await self.receive()
            if message.get("id") != ident:
                self.events.append(message)
            elif message["ev"] == "end":
                return items, message
            else:
                items.append(message)

    async def ask(self, op: str, **fields: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        return await self.end(await self.send(op, **fields))

    async def chat(self, text: str) -> tuple[str, dict[str, Any]]:
        items, end = await self.ask("chat", text=text)
        return "".join(m["d"] for m in items if m["ev"] == "text"), end


@contextlib.asynccontextmanager
async def page(board: WebBoard, token: str | None = None, user: str = "me") -> AsyncIterator[Page]:
    """A page that is logged in (by default as the owner)."""
    async with websockets.connect(f"ws://127.0.0.1:{board.port}/ws", max_queue=512) as ws:
        opened = Page(ws)
        hello = await opened.login(token or board.owner, user)
        assert hello["ev"] == "hello", hello
        yield opened
