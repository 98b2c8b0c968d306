"""Heap of the simulated classic ESP32: after start, and the most in use during a turn.

The board collects its garbage and notes what is in use whenever the turn lets other tasks run
(after every piece sent and received), so the peak is of live objects, not of garbage.
"""

from __future__ import annotations

import asyncio
from typing import Any

from upyclaw_host.bench import Progress, net, web
from upyclaw_host.bench.boards import bench_board, session_files
from upyclaw_host.errors import UserError

SESSION_BYTES = 150_000
RECORDS = 300
LIMIT = 24 * 1024  # what a turn may take above idle


def run(progress: Progress) -> dict[str, Any]:
    """A turn with an empty session, one with 150,000 bytes in 300 records, Wi-Fi, the page."""
    result = asyncio.run(_run(progress))
    result["net"] = net.run(progress)
    result["page"] = web.run(progress)
    # What the page takes shows only where it fits.
    result["page_in_256k"] = web.run(progress, heap="256k")
    return result


async def _run(progress: Progress) -> dict[str, Any]:
    files = session_files(SESSION_BYTES, RECORDS)
    result: dict[str, Any] = {"limit_above_idle": LIMIT}
    for name, session in (("empty", None), ("full", files)):
        progress(f"a turn with the {name} session")
        async with bench_board(
            session=session, context=131072, reply="A short answer. " * 40
        ) as bench:
            start = bench.client.hello
            first = await bench.client.turn("Say something.")
            if not first.ok:
                raise UserError(f"The bench's turn failed: {first.error}", 1)
            await bench.control({"op": "probe", "on": True})
            turn = await bench.client.turn("And once more?")
            if not turn.ok:
                raise UserError(f"The bench's turn failed: {turn.error}", 1)
            probe = await bench.control({"op": "probe", "on": False})
            result[name] = {
                "heap": probe["heap"],
                "free_after_start": start["heap_free"],
                "free_idle": probe["heap"] - probe["idle"],
                "lowest_free": probe["heap"] - probe["peak"],
                "above_idle": probe["peak"] - probe["idle"],
                "samples": probe["samples"],
                "request_bytes": bench.served[-1].received,
            }
    return result


def render(result: dict[str, Any]) -> str:
    """A few lines of text."""
    lines = []
    for name in ("empty", "full"):
        r = result[name]
        lines.append(
            f"{name} session, request of {r['request_bytes']:,} bytes: heap {r['heap']:,}, "
            f"free after start {r['free_after_start']:,}, idle {r['free_idle']:,}, "
            f"lowest in a turn {r['lowest_free']:,}; the turn takes {r['above_idle']:,} bytes "
            f"above idle (limit {result['limit_above_idle']:,}, {r['samples']:,} samples)"
        )
    lines.append(net.render(result["net"]))
    lines.append(web.render(result["page"]))
    lines.append("the same with a heap of 256 KB:\n" + web.render(result["page_in_256k"]))
    return "\n".join(lines)
