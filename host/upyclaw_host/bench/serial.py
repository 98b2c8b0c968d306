"""Bytes on the serial line for one turn with a 150,000-byte session."""

from __future__ import annotations

import asyncio
from typing import Any

from upyclaw_host.bench import Progress
from upyclaw_host.bench.boards import REPLY, bench_board, on_flash, scripted, session_files
from upyclaw_host.bench.ram import RECORDS, SESSION_BYTES

BAUD = 115200


def run(progress: Progress) -> dict[str, Any]:
    """One turn each: history limited to the small model's context, and all of it."""
    return asyncio.run(_run(progress))


async def _run(progress: Progress) -> dict[str, Any]:
    files = on_flash(session_files(SESSION_BYTES, RECORDS))
    result: dict[str, Any] = {"session_bytes": SESSION_BYTES, "records": RECORDS}
    for context in (8192, 131072):
        progress(f"a turn with a context of {context} tokens")
        async with bench_board(scripted(REPLY, context), files=files) as bench:
            before = bench.client.link.stats.as_dict()
            await bench.turn()
            after = bench.client.link.stats.as_dict()
            spent: dict[str, float] = {name: after[name] - before[name] for name in after}
            spent["request_bytes"] = bench.served[-1].received
            spent["lost_in_uart"] = bench.board.stats.lost
            spent["seconds_at_115200"] = round(
                10 * max(spent["rx_bytes"], spent["tx_bytes"]) / BAUD, 1
            )
            result[f"context_{context}"] = spent
    return result


def render(result: dict[str, Any]) -> str:
    """A line for each context."""
    lines = [f"session of {result['session_bytes']:,} bytes in {result['records']} records:"]
    for name, spent in result.items():
        if name.startswith("context_"):
            lines.append(
                f"  {name.replace('_', ' of ')} tokens: {spent['rx_bytes']:,} bytes from "
                f"the board for a request of {spent['request_bytes']:,}, "
                f"{spent['tx_bytes']:,} to it; "
                f"{spent['resent']} frames resent, {spent['lost_in_uart']} bytes lost; "
                f"at {BAUD} baud {spent['seconds_at_115200']} s"
            )
    return "\n".join(lines)
