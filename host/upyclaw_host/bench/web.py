"""Heap of the page on the board: free idle and in a turn, with no, one and four pages open.

Runs on the simulated classic ESP32, whose heap may be made larger to see what the page needs where
it does not fit. Pages talk over real sockets on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import websockets

from upyclaw_host.bench import Progress
from upyclaw_host.bench.boards import BenchBoard, script_line
from upyclaw_host.chat import ChatClient
from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.link import LinkDown
from upyclaw_host.relay import Relay, make_provider
from upyclaw_host.sim import SimBoard, build_flash

PAGES = (0, 1, 4)
REPLY = "A short answer. " * 40


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
        except (UserError, OSError, LinkDown, asyncio.TimeoutError, _Failed) as error:
            step["error"] = getattr(error, "message", None) or str(error) or repr(error)
        except websockets.WebSocketException as error:
            step["error"] = f"the page hung up ({error})"
        result["steps"].append(step)
    return result


class _Failed(Exception):
    """The board did not do what is measured."""


async def _measure(bench: BenchBoard, url: str, pages: int) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        opened = []
        for number in range(pages):
            opened.append(await stack.enter_async_context(_page(url, f"u{number}")))
        # The first turn loads what turns need; the second one is measured.
        await _turn(bench, opened)
        probe = await bench.control({"op": "probe", "on": True})
        await _turn(bench, opened)
        probe = await bench.control({"op": "probe", "on": False})
        return {
            "heap": probe["heap"],
            "free_idle": probe["heap"] - probe["idle"],
            "lowest_free": probe["heap"] - probe["peak"],
        }


async def _turn(bench: BenchBoard, opened: list[Any]) -> None:
    """A turn of the first page, or of the serial chat where none is open."""
    if not opened:
        turn = await bench.client.turn("Say something.")
        if not turn.ok:
            raise _Failed(turn.error)
        return
    await opened[0].send(json.dumps({"id": 1, "op": "chat", "text": "Say something."}))
    while True:
        event = json.loads(await asyncio.wait_for(opened[0].recv(), 30))
        if event.get("ev") == "end":
            if not event["ok"]:
                raise _Failed(event["error"])
            return


@contextlib.asynccontextmanager
async def _page(url: str, user: str) -> AsyncIterator[Any]:
    home, token = url.split("#")
    async with websockets.connect(home.replace("http", "ws", 1) + "ws") as page:
        await page.send(json.dumps({"op": "login", "token": token, "user": user}))
        hello = json.loads(await asyncio.wait_for(page.recv(), 20))
        if hello.get("ev") != "hello":
            raise _Failed(str(hello.get("d")))
        yield page


@contextlib.asynccontextmanager
async def _board(name: str, heap: str | None, on: bool) -> AsyncIterator[tuple[BenchBoard, str]]:
    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as folder:
        flash = Path(folder) / "flash.img"
        board = SimBoard(flash, name)
        if heap:
            board.spec = dataclasses.replace(board.spec, heap=heap)
        build_flash(flash, blocks=board.spec.blocks, board=board.spec)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        web = {"enabled": "on" if on else "off", "host": "127.0.0.1", "port": port}
        config = {"web": web, "network": {"access_point": "off"}}
        with open_image(flash, write=True) as image:
            image.write("/config.json", json.dumps(config).encode())
        script = Path(folder) / "script.jsonl"
        script.write_text(script_line(REPLY), "utf-8")
        provider = make_provider(f"script:{script}", load_config())
        where = await asyncio.to_thread(board.start)
        try:
            client = await ChatClient.connect(where, Relay(provider))
            try:
                bench = BenchBoard(board, client, [])
                yield bench, await _link(bench) if on else ""
            finally:
                await client.close()
        finally:
            await asyncio.to_thread(board.stop)


async def _link(bench: BenchBoard) -> str:
    for _ in range(10):
        try:
            links = await bench.control({"op": "web"}, timeout=1)
        except UserError:
            continue
        if "url" not in links:
            raise _Failed(str(links.get("why")))
        return str(links["url"])
    raise _Failed("the page did not come up: not enough heap")


def render(result: dict[str, Any]) -> str:
    """A few lines of text."""
    lines = [f"page on the board {result['board']}, a turn of the first page:"]
    for step in result["steps"]:
        name = f"{step['open']} open" if step["page"] else "page off"
        if "error" in step:
            lines.append(f"  {name}: does not fit ({step['error']})")
        else:
            lines.append(
                f"  {name}: heap {step['heap']:,}, free idle {step['free_idle']:,}, "
                f"lowest in a turn {step['lowest_free']:,}"
            )
    return "\n".join(lines)
