"""`upyclaw bench powercut`: cuts the power at every flash operation and counts what is lost.

Owns the distribution of the work and the sum. The stories, the model and the checks run in real
MicroPython on real LittleFS: `device/powercut.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from upyclaw_host.bench.device_run import run_script

# Each is a history with its own flash; the order is by length, the longest first.
STORIES = (
    "compaction of 150 KB",
    "many plain turns",
    "thinning",
    "compaction",
    "plain turns",
    "blocking",
    "idx rebuild",
    "trim",
    "trim twice",
    "tool turns",
    "unanswered question",
    "torn tail",
    "lost line end",
    "session switch",
    "first turn of a session",
    "delete a blocked session",
    "delete",
)


# The long-term memory (`device/powercut_memory.py`): opening it reads all, so fewer second cuts.
MEMORY_STORIES = (
    "memory: compaction",
    "memory: eviction",
    "memory: update, refine, pin",
    "memory: forget",
    "memory: facts",
    "memory: damaged files",
    "memory: first facts",
)


def _story(seed: int, stride: int, name: str) -> list[dict[str, Any]]:
    if name.startswith("memory:"):
        return list(run_script("powercut_memory", str(seed), str(stride * 40), name))
    return list(run_script("powercut", str(seed), str(stride), name))


def run(
    progress: Callable[[str], None],
    cuts: int = 200_000,
    stride: int = 1,
    names: Sequence[str] = STORIES + MEMORY_STORIES,
) -> dict[str, Any]:
    """Tell all stories with growing seeds until at least `cuts` cuts were made.

    `stride`: the recovery is cut again after every `stride`-th cut. The stories of a seed are
    always told to the end. Raises UserError if MicroPython itself fails.
    """
    began = time.monotonic()
    stories: dict[str, dict[str, int]] = {
        name: {"operations": 0, "cuts": 0, "second_cuts": 0, "violations": 0} for name in names
    }
    shown: list[str] = []
    total = seed = 0
    workers = min(4, os.cpu_count() or 1)
    pool = ThreadPoolExecutor(workers)
    open_jobs: set[Future[list[dict[str, Any]]]] = set()
    try:
        while total < cuts or open_jobs:
            if total < cuts and len(open_jobs) < workers:
                seed += 1
                open_jobs |= {pool.submit(_story, seed, stride, name) for name in names}
            done, open_jobs = wait(open_jobs, return_when=FIRST_COMPLETED)
            for job in done:
                for line in job.result():
                    story = stories[line["story"]]
                    story["operations"] += line["operations"]
                    story["cuts"] += line["cuts"]
                    story["second_cuts"] += line["second"]
                    story["violations"] += line["violation_count"]
                    shown += [f"{line['story']}: {text}" for text in line["violations"]]
                    total += line["cuts"] + line["second"]
            progress(f"{total:,} cuts")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return {
        "cuts": sum(story["cuts"] for story in stories.values()),
        "second_cuts": sum(story["second_cuts"] for story in stories.values()),
        "total": total,
        "violations": sum(story["violations"] for story in stories.values()),
        "examples": shown[:20],
        "stories": stories,
        "seeds": seed,
        "seconds": round(time.monotonic() - began, 1),
    }


def render(result: dict[str, Any]) -> str:
    """The result as text for people."""
    lines = [f"{'story':28} {'operations':>10} {'cuts':>8} {'second':>9} {'violations':>10}"]
    for name, story in result["stories"].items():
        lines.append(
            f"{name:28} {story['operations']:>10,} {story['cuts']:>8,} {story['second_cuts']:>9,}"
            f" {story['violations']:>10,}"
        )
    lines.append(
        f"{'all':28} {'':>10} {result['cuts']:>8,} {result['second_cuts']:>9,}"
        f" {result['violations']:>10,}"
    )
    lines.append(
        f"{result['total']:,} power cuts, {result['violations']:,} violations"
        f" ({result['seconds']} s)"
    )
    return "\n".join(lines + result["examples"])
