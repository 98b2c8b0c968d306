"""Heap of Wi-Fi and of talking to a model over it, on the simulated board.

Three boards: no Wi-Fi and the relay on the cable, Wi-Fi joined and the relay on the cable, Wi-Fi
joined and the model over HTTP. On a chip Wi-Fi and TLS take memory of their own beside this heap.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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
from upyclaw_host.relay import Relay
from upyclaw_host.relay.http import HttpRelay, RelayServer
from upyclaw_host.relay.tokens import Tokens

STEPS = ("cable", "wifi", "http")
_NETWORK = {"ssid": "Bench", "password": "bench-bench"}
_JOIN_S = 10.0


def run(progress: Progress, board: str = "sim", heap: str | None = None) -> dict[str, Any]:
    """Bytes of heap on `board` for each of STEPS; `heap` replaces the board's own ("256k").

    A step that fails has "error" and no figures.
    """
    return asyncio.run(_run(progress, board, heap))


async def _run(progress: Progress, board: str, heap: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"board": board, "steps": []}
    for name in STEPS:
        progress(name)
        step: dict[str, Any] = {"model": name}
        try:
            async with _board(board, heap, name) as bench:
                if name != "cable":
                    await _joined(bench)
                step.update(await heap_of_a_turn(bench))
        except UserError as error:
            step["error"] = error.message
        result["steps"].append(step)
    return result


async def _joined(bench: BenchBoard) -> None:
    until = time.monotonic() + _JOIN_S
    while "ssid" not in (await bench.client.link.status())["net"]:
        if time.monotonic() > until:
            raise UserError("the board did not join its network", 1)
        await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def _board(name: str, heap: str | None, step: str) -> AsyncIterator[BenchBoard]:
    relay = scripted(REPLY)
    config: dict[str, Any] = {
        "network": {"ntp": "", "access_point": "off"},
        "web": {"enabled": "off"},
    }
    files = {}
    if step != "cable":
        files["/wifi.json"] = json.dumps({"networks": [_NETWORK]}).encode()
    async with contextlib.AsyncExitStack() as stack:
        if step == "http":
            config["model"] = await stack.enter_async_context(_served(relay))
        files["/config.json"] = json.dumps(config).encode()
        yield await stack.enter_async_context(
            bench_board(
                None if step == "http" else relay,
                board=name,
                heap=heap,
                files=files,
                world=None if step == "cable" else {"networks": {_NETWORK["ssid"]: _NETWORK}},
            )
        )


@contextlib.asynccontextmanager
async def _served(relay: Relay) -> AsyncIterator[dict[str, str]]:
    """`relay` over HTTP; the board's settings for it."""
    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as folder:
        tokens = Tokens(Path(folder) / "tokens.json")
        token = tokens.add("bench")
        server = RelayServer(HttpRelay(relay, tokens), "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        try:
            yield {"base_url": f"http://127.0.0.1:{server.port}", "api_key": token}
        finally:
            server.stop()
            await serving


def render(result: dict[str, Any]) -> str:
    """A few lines of text."""
    words = {
        "cable": "no Wi-Fi, relay on the cable",
        "wifi": "on Wi-Fi, relay on the cable",
        "http": "on Wi-Fi, model over HTTP",
    }
    lines = [f"board {result['board']}:"]
    for step in result["steps"]:
        name = words[step["model"]]
        if "error" in step:
            lines.append(f"  {name}: does not work ({step['error']})")
        else:
            lines.append(f"  {name}: {heap_line(step)}")
    return "\n".join(lines)
