"""Heap of Wi-Fi and of talking to a model over it, on the simulated board.

Three boards: no Wi-Fi and the relay on the cable, Wi-Fi joined and the relay on the cable, Wi-Fi
joined and the model over HTTP. On a chip Wi-Fi and TLS take memory of their own beside this heap.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from upyclaw_host.bench import Progress
from upyclaw_host.bench.boards import BenchBoard, script_line
from upyclaw_host.chat import ChatClient
from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.relay import Relay, make_provider
from upyclaw_host.relay.http import HttpRelay, RelayServer
from upyclaw_host.relay.tokens import Tokens
from upyclaw_host.sim import SimBoard, build_flash

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
                step.update(await _measure(bench, name != "cable"))
        except UserError as error:
            step["error"] = error.message
        result["steps"].append(step)
    return result


async def _measure(bench: BenchBoard, wifi: bool) -> dict[str, Any]:
    until = time.monotonic() + _JOIN_S
    while wifi and "ssid" not in (await bench.client.link.status())["net"]:
        if time.monotonic() > until:
            raise UserError("the board did not join its network", 1)
        await asyncio.sleep(0.2)
    # The first turn loads what turns need; the second one is measured.
    await _turn(bench)
    await bench.control({"op": "probe", "on": True})
    await _turn(bench)
    probe = await bench.control({"op": "probe", "on": False})
    return {
        "heap": probe["heap"],
        "free_idle": probe["heap"] - probe["idle"],
        "lowest_free": probe["heap"] - probe["peak"],
    }


async def _turn(bench: BenchBoard) -> None:
    turn = await bench.client.turn("Say something.")
    if not turn.ok:
        raise UserError(str(turn.error), 1)


@contextlib.asynccontextmanager
async def _board(name: str, heap: str | None, step: str) -> AsyncIterator[BenchBoard]:
    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as text:
        folder = Path(text)
        script = folder / "script.jsonl"
        script.write_text(script_line("A short answer. " * 40), "utf-8")
        relay = Relay(make_provider(f"script:{script}", load_config()))
        tokens = Tokens(folder / "tokens.json")
        token = tokens.add("bench")
        server = RelayServer(HttpRelay(relay, tokens), "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        model = {"base_url": f"http://127.0.0.1:{server.port}", "api_key": token}
        board = _make(folder, name, heap, step, model if step == "http" else {})
        try:
            port = await asyncio.to_thread(board.start)
            client = await ChatClient.connect(port, None if step == "http" else relay)
            try:
                yield BenchBoard(board, client, [])
            finally:
                await client.close()
        finally:
            await asyncio.to_thread(board.stop)
            server.stop()
            await serving


def _make(folder: Path, name: str, heap: str | None, step: str, model: dict[str, Any]) -> SimBoard:
    """A board, switched off, with its settings and the world around it."""
    world = folder / "world.json"
    world.write_text(json.dumps({"networks": {_NETWORK["ssid"]: _NETWORK}}), "utf-8")
    flash = folder / "flash.img"
    board = SimBoard(flash, name, network=None if step == "cable" else world)
    if heap:
        board.spec = dataclasses.replace(board.spec, heap=heap)
    build_flash(flash, blocks=board.spec.blocks, board=board.spec)
    config = {
        "network": {"ntp": "", "access_point": "off"},
        "web": {"enabled": "off"},
        "model": model,
    }
    with open_image(flash, write=True) as image:
        image.write("/config.json", json.dumps(config).encode())
        if step != "cable":
            image.write("/wifi.json", json.dumps({"networks": [_NETWORK]}).encode())
    return board


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
            lines.append(
                f"  {name}: heap {step['heap']:,}, free idle {step['free_idle']:,}, "
                f"lowest in a turn {step['lowest_free']:,}"
            )
    return "\n".join(lines)
