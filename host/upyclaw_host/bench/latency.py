"""From sending a line to its first streamed word: the product's own share, median of 20 turns.

Each turn has an empty history (`/session new` before it). The model is a script that answers at
once. The split: `flash` is the board's own count of writing the user's record, `model` the
relay's count from a whole request to its first words, `link` all the rest, which is frames on the
line both ways and the board's work on them.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from upyclaw_host.bench import Progress
from upyclaw_host.bench.boards import bench_board, scripted
from upyclaw_host.errors import UserError

TURNS = 20


def run(progress: Progress) -> dict[str, Any]:
    """Medians in milliseconds, at once and with the line slowed to 115,200 baud."""
    return asyncio.run(_run(progress))


async def _run(progress: Progress) -> dict[str, Any]:
    return {
        "turns": TURNS,
        "unpaced": await _measure(None, progress),
        "115200 baud": await _measure(115200, progress),
    }


async def _measure(baud: int | None, progress: Progress) -> dict[str, float]:
    rows: list[tuple[float, float, float]] = []
    async with bench_board(scripted("Fine."), baud=baud) as bench:
        client = bench.client
        for number in range(TURNS):
            progress(f"{baud or 'unpaced'}: turn {number + 1} of {TURNS}")
            made = await client.turn("/session new bench")
            started = time.perf_counter()
            first: list[float] = []
            turn = await client.turn(
                "Hello there.",
                on_text=lambda _, first=first: first.append(time.perf_counter()),  # type: ignore[misc]
            )
            if not (made.ok and turn.ok and first):
                raise UserError(f"The bench's turn failed: {made.error or turn.error}", 1)
            total = (first[0] - started) * 1000
            model = (bench.served[-1].first or 0.0) * 1000
            rows.append((total, turn.timing["flash"] / 1000, model))
            await client.turn("/session switch default_01")
            await client.turn("/session delete bench")
    total = statistics.median(row[0] for row in rows)
    flash = statistics.median(row[1] for row in rows)
    model = statistics.median(row[2] for row in rows)
    return {
        "total_ms": round(total, 2),
        "link_ms": round(statistics.median(row[0] - row[1] - row[2] for row in rows), 2),
        "flash_ms": round(flash, 2),
        "model_ms": round(model, 2),
    }


def render(result: dict[str, Any]) -> str:
    """A line for each speed."""
    lines = [f"from line to first word, median of {result['turns']} turns, empty history:"]
    for name in ("unpaced", "115200 baud"):
        row = result[name]
        lines.append(
            f"  {name}: {row['total_ms']} ms = link and board {row['link_ms']} + "
            f"flash {row['flash_ms']} + model {row['model_ms']}"
        )
    return "\n".join(lines)
