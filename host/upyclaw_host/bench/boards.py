"""A simulated board for benchmarks: fresh flash, scripted model, a session of a given size."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from upyclaw_host.chat import ChatClient
from upyclaw_host.config import load_config
from upyclaw_host.flash.image import open_image
from upyclaw_host.relay import Relay, Served, make_provider
from upyclaw_host.sim import SimBoard, build_flash

SESSION_ID = "chat:serial:usb:default_01"
SESSIONS = "/data/sessions"


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


def script_line(reply: str, delay_ms: int = 0) -> str:
    """A script (see `--provider script:FILE`) that answers every question with `reply`."""
    message = {"role": "assistant", "content": reply}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    line = {"for": "chat", "body": body, "repeat": True, "delay_ms": delay_ms}
    return json.dumps(line) + "\n"


class BenchBoard:
    """A running board with its chat client; `served` grows by one entry a model request."""

    def __init__(self, board: SimBoard, client: ChatClient, served: list[Served]) -> None:
        self.board = board
        self.client = client
        self.served = served

    async def control(self, message: dict[str, Any], timeout: float = 30.0) -> dict[str, Any]:
        """Ask the board with a control message; its answer has the same `op`."""
        return await self.client.link.ask(message, timeout=timeout)


@contextlib.asynccontextmanager
async def bench_board(
    *,
    reply: str = "Fine.",
    session: dict[str, bytes] | None = None,
    context: int | None = None,
    baud: int | None = None,
    delay_ms: int = 0,
) -> AsyncIterator[BenchBoard]:
    """A board on a flash image of its own; every question is answered with `reply`."""
    with tempfile.TemporaryDirectory(prefix="upyclaw-bench-") as folder:
        flash = Path(folder) / "flash.img"
        build_flash(flash)
        if session:
            with open_image(flash, write=True) as image:
                for name, data in session.items():
                    image.write(f"{SESSIONS}/{name}", data)
        script = Path(folder) / "script.jsonl"
        script.write_text(script_line(reply, delay_ms), "utf-8")
        provider = make_provider(f"script:{script}", load_config())
        if context:
            provider.context = context
        served: list[Served] = []
        board = SimBoard(flash, baud=baud)
        port = await asyncio.to_thread(board.start)
        try:
            client = await ChatClient.connect(port, Relay(provider), on_served=served.append)
            try:
                yield BenchBoard(board, client, served)
            finally:
                await client.close()
        finally:
            await asyncio.to_thread(board.stop)
