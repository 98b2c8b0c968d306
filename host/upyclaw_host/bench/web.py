"""Heap of the page on the board: free idle and in a turn, with no, one and four pages open.

Runs on the simulated classic ESP32, whose heap may be made larger to see what the page needs where
it does not fit. Pages talk over real sockets on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import websockets

from upyclaw_host.bench import Progress
from upyclaw_host.bench.boards import (
    REPLY,
    BenchBoard,
    bench_board,
    heap_line,
    heap_of_a_turn,
    scripted,
)
from upyclaw_host.errors import UserError

PAGES = (0, 1, 4)


def run(progress: Progress, board: str = "sim", heap: str | None = None) -> dict[str, Any]:
    """Bytes of heap on `board` with the page off, then on with 0, 1 and 4 pages open.

    `heap` replaces the board's own size ("256k"). A step that fails has "error" and no figures.
    """
    return asyncio.run(_run(progress, board, heap))


async def _run(progress: Progress, board: str, heap: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"board": board, "steps": []}
    for pages in (None, *PAGES):
        progress("page off" if pages is None else f"{pages} pages open")
        step: dict[str, Any] = {"page": pages is not None, "open": pages or 0}
        try:
            async with _board(board, heap, on=pages is not None) as (bench, url):
                step.update(await _measure(bench, url, pages or 0))
        except (UserError, OSError, asyncio.TimeoutError) as error:
            step["error"] = getattr(error, "message", None) or str(error) or repr(error)
        except websockets.WebSocketException as error:
            step["error"] = f"the page hung up ({error})"
        result["steps"].append(step)
    return result


async def _measure(bench: BenchBoard, url: str, pages: int) -> dict[str, int]:
    """A turn of the first page, or of the serial chat where none is open."""
    async with contextlib.AsyncExitStack() as stack:
        opened = []
        for number in range(pages):
            opened.append(await stack.enter_async_context(_page(url, f"u{number}")))
        return await heap_of_a_turn(bench, (lambda: _turn(opened[0])) if opened else None)


async def _turn(page: Any) -> None:
    await page.send(json.dumps({"id": 1, "op": "chat", "text": "Say something."}))
    while True:
        event = json.loads(await asyncio.wait_for(page.recv(), 30))
        if event.get("ev") == "end":
            if not event["ok"]:
                raise UserError(str(event["error"]), 1)
            return


@contextlib.asynccontextmanager
async def _page(url: str, user: str) -> AsyncIterator[Any]:
    home, token = url.split("#")
    async with websockets.connect(home.replace("http", "ws", 1) + "ws") as page:
        await page.send(json.dumps({"op": "login", "token": token, "user": user}))
        hello = json.loads(await asyncio.wait_for(page.recv(), 20))
        if hello.get("ev") != "hello":
            raise UserError(str(hello.get("d")), 1)
        yield page


@contextlib.asynccontextmanager
async def _board(name: str, heap: str | None, on: bool) -> AsyncIterator[tuple[BenchBoard, str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    web = {"enabled": "on" if on else "off", "host": "127.0.0.1", "port": port}
    config = {"web": web, "network": {"access_point": "off"}}
    files = {"/config.json": json.dumps(config).encode()}
    async with bench_board(scripted(REPLY), board=name, heap=heap, files=files) as bench:
        yield bench, await _link(bench) if on else ""


async def _link(bench: BenchBoard) -> str:
    for _ in range(10):
        try:
            links = await bench.control({"op": "web"}, timeout=1)
        except UserError:
            continue
        if "url" not in links:
            raise UserError(str(links.get("why")), 1)
        return str(links["url"])
    raise UserError("the page did not come up: not enough heap", 1)


def render(result: dict[str, Any]) -> str:
    """A few lines of text."""
    lines = [f"page on the board {result['board']}, a turn of the first page:"]
    for step in result["steps"]:
        name = f"{step['open']} open" if step["page"] else "page off"
        if "error" in step:
            lines.append(f"  {name}: does not fit ({step['error']})")
        else:
            lines.append(f"  {name}: {heap_line(step)}")
    return "\n".join(lines)
