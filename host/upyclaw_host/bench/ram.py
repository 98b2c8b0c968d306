"""Heap of the simulated classic ESP32: after start, and the most in use during a turn.

The board collects its garbage and notes what is in use whenever the turn lets other tasks run
(after every piece sent and received), so the peak is of live objects, not of garbage.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from upyclaw_host.bench import Progress, net, web
from upyclaw_host.bench.boards import (
    REPLY,
    bench_board,
    heap_of_a_turn,
    on_flash,
    scripted,
    session_files,
)
from upyclaw_host.bench.device_run import run_script

SESSION_BYTES = 150_000
RECORDS = 300
FLASH_BYTES = 512 * 4096
PSRAM_BOARD = "esp32_s3"
LIMIT = 24 * 1024  # what a turn may take above idle
STORE_LIMIT = 8 * 1024  # what the session store may take of it, for 150 KB and 3,000 records


def run(progress: Progress) -> dict[str, Any]:
    """A turn with an empty session, one with 150,000 bytes in 300 records, Wi-Fi, the page.

    Wi-Fi and the page on a board with PSRAM too.
    """
    result = asyncio.run(_run(progress))
    result["store"] = store(progress)
    result["net"] = net.run(progress)
    result["page"] = web.run(progress)
    # What the page takes shows only where it fits.
    result["page_in_256k"] = web.run(progress, heap="256k")
    result["net_s3"] = net.run(progress, board=PSRAM_BOARD)
    result["page_s3"] = web.run(progress, board=PSRAM_BOARD)
    return result


def store(progress: Progress) -> dict[str, Any]:
    """Heap of the session store by what it does, in real MicroPython on a LittleFS."""
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "flash.img"
        image.touch()
        os.truncate(image, FLASH_BYTES)
        for case in run_script("store_heap", str(image), heap="1M"):
            progress(f"session store: {case['case']}")
            cases.append({**case, "within": case["heap"] <= STORE_LIMIT})
    return {"limit": STORE_LIMIT, "cases": cases}


def render_store(result: dict[str, Any]) -> str:
    """A line for each thing that was done."""
    first = result["cases"][0]
    lines = [
        f"session store, {first['data']:,} bytes in {first['records']:,} records, above idle and "
        f"without its code (limit {result['limit']:,}):"
    ]
    for case in result["cases"]:
        mark = "" if case["within"] else "  OVER THE LIMIT"
        lines.append(f"  {case['case']:28} {case['heap']:>6,}{mark}")
    return "\n".join(lines)


async def _run(progress: Progress) -> dict[str, Any]:
    files = on_flash(session_files(SESSION_BYTES, RECORDS))
    result: dict[str, Any] = {"limit_above_idle": LIMIT}
    for name, session in (("empty", {}), ("full", files)):
        progress(f"a turn with the {name} session")
        async with bench_board(scripted(REPLY, 131072), files=session) as bench:
            free = bench.client.hello["heap_free"]
            result[name] = {"free_after_start": free, **await heap_of_a_turn(bench)}
            result[name]["request_bytes"] = bench.served[-1].received
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
    lines.append(render_store(result["store"]))
    lines.append(net.render(result["net"]))
    lines.append(web.render(result["page"]))
    lines.append("the same with a heap of 256 KB:\n" + web.render(result["page_in_256k"]))
    lines += [net.render(result["net_s3"]), web.render(result["page_s3"])]
    return "\n".join(lines)
