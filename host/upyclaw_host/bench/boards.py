"""A simulated board for benchmarks: fresh flash, scripted model, a session of a given size.

Owns the set-up and how the heap of a turn is measured on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from upyclaw_host.chat import ChatClient
from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.relay import Relay, Served, make_provider
from upyclaw_host.sim import SimBoard, build_flash

SESSION_ID = "chat:serial:usb:default_01"
SESSIONS = "/data/sessions"
REPLY = "A short answer. " * 40


def session_files(total: int, records: int) -> dict[str, bytes]:
    """A session of exactly `total` data bytes in `records` records, made by the board's own code.

    Returns file name -> content. User and answer alternate; the lengths are as even as can be.
    """
    from upyclaw.storage import FINAL, SessionStore, user_record

    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as folder:
        store = SessionStore(folder)
        session = store.open(SESSION_ID)
        answer = b'{"role":"assistant","content":"%s"}'
        left = total
        for number in range(records // 2):
            share = left // (records // 2 - number)
            half = share // 2
            user = user_record(f"Question {number}: " + "why " * 400)
            session.add_user(user[: half - 3].rstrip(b"\\") + b'"}')
            rest = share - half - len(answer) + 1
            session.begin(FINAL)
            session.write(answer % (b"because " * 400)[:rest])
            session.end()
            session.finish(completed=False)
            left = total - session.size
        session.close()
        if session.size != total or session.count != records:
            raise ValueError(f"built {session.size} bytes in {session.count} records")
        return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def on_flash(session: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path -> content of the files of a session (`session_files`)."""
    return {f"{SESSIONS}/{name}": data for name, data in session.items()}


def scripted(reply: str, context: int | None = None) -> Relay:
    """A model that answers every question with `reply` at once; `context` in tokens."""
    message = {"role": "assistant", "content": reply}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as folder:
        script = Path(folder) / "script.jsonl"
        script.write_text(
            json.dumps({"for": "chat", "body": body, "repeat": True}) + "\n", "utf-8"
        )
        provider = make_provider(f"script:{script}", load_config())
    if context:
        provider.context = context
    return Relay(provider)


class BenchBoard:
    """A running board with its chat client; `served` grows by one entry a model request."""

    def __init__(self, board: SimBoard, client: ChatClient, served: list[Served]) -> None:
        self.board = board
        self.client = client
        self.served = served

    async def control(self, message: dict[str, Any], timeout: float = 30.0) -> dict[str, Any]:
        """Ask the board with a control message; its answer has the same `op`."""
        return await self.client.link.ask(message, timeout=timeout)

    async def turn(self) -> None:
        """A question over the cable. Raises UserError if the board does not answer it."""
        turn = await self.client.turn("Say something.")
        if not turn.ok:
            raise UserError(f"The bench's turn failed: {turn.error}", 1)


@contextlib.asynccontextmanager
async def bench_board(
    relay: Relay | None,
    *,
    board: str = "sim",
    heap: str | None = None,
    files: Mapping[str, bytes] | None = None,
    world: Mapping[str, Any] | None = None,
    baud: int | None = None,
) -> AsyncIterator[BenchBoard]:
    """A board on a flash image of its own, with `files` (path -> content) beside the firmware.

    `relay` answers over the cable; None: the PC lends no model. `heap` replaces the board's own
    size ("256k"). `world`: the Wi-Fi networks around it (boards/sim/simnetwork.py).
    """
    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as folder:
        flash, networks = Path(folder) / "flash.img", Path(folder) / "world.json"
        if world is not None:
            networks.write_text(json.dumps(world), "utf-8")
        simulated = SimBoard(flash, board, baud=baud, network=networks if world else None)
        if heap:
            simulated.spec = dataclasses.replace(simulated.spec, heap=heap)
        build_flash(flash, blocks=simulated.spec.blocks, board=simulated.spec)
        with open_image(flash, write=True) as image:
            for path, data in (files or {}).items():
                image.write(path, data)
        served: list[Served] = []
        port = await asyncio.to_thread(simulated.start)
        try:
            client = await ChatClient.connect(port, relay, on_served=served.append)
            try:
                yield BenchBoard(simulated, client, served)
            finally:
                await client.close()
        finally:
            await asyncio.to_thread(simulated.stop)


async def heap_of_a_turn(
    bench: BenchBoard, turn: Callable[[], Awaitable[None]] | None = None
) -> dict[str, int]:
    """Heap in `turn` (a question over the cable), the second of two: the first loads its code.

    Bytes: the whole heap, free before the turn, the least free in it, the most it took above idle;
    `samples` is how often the board looked.
    """
    turn = turn or bench.turn
    await turn()
    await bench.control({"op": "probe", "on": True})
    await turn()
    probe = await bench.control({"op": "probe", "on": False})
    return {
        "heap": probe["heap"],
        "free_idle": probe["heap"] - probe["idle"],
        "lowest_free": probe["heap"] - probe["peak"],
        "above_idle": probe["peak"] - probe["idle"],
        "samples": probe["samples"],
    }


def heap_line(step: Mapping[str, Any]) -> str:
    """What `heap_of_a_turn` found, for people."""
    return (
        f"heap {step['heap']:,}, free idle {step['free_idle']:,}, "
        f"lowest in a turn {step['lowest_free']:,}"
    )
