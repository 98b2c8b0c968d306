"""`upyclaw bench recall`: how many questions find their fact among the first eight.

Owns the question set (`data/recall.json`: 128 facts, 144 questions, English and Chinese) and the
table. The device's own code searches, in real MicroPython and in CPython; both must rank alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from upyclaw_host.bench.device_run import run_script
from upyclaw_host.errors import UserError
from upyclaw_host.resources import device_package

DATA = Path(__file__).resolve().parent / "data" / "recall.json"
# What the word search has to reach.
FLOOR = 0.95


def _here(folder: str) -> dict[str, Any]:
    """The same script in this Python."""
    script = Path(__file__).resolve().parent / "device" / "memory_recall.py"
    env = {**os.environ, "PYTHONPATH": str(device_package().parent)}
    done = subprocess.run(
        [sys.executable, str(script), str(DATA), folder],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise UserError(f"The benchmark script memory_recall.py failed: {last}.")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run(progress: Callable[[str], None]) -> dict[str, Any]:
    """Ask all questions. `hits` are counts, `share` parts of 1, `same_on_both` tells whether board
    and PC found the same items in the same order."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/board")
        os.makedirs(f"{folder}/pc")
        progress("MicroPython")
        (board,) = run_script("memory_recall", str(DATA), f"{folder}/board")
        progress("CPython")
        here = _here(f"{folder}/pc")
    order = board.pop("order")
    board["same_on_both"] = order == here["order"] and board["hits"] == here["hits"]
    board["share"] = {
        name: round(count / board["questions"], 3) for name, count in board["hits"].items()
    }
    board["within"] = board["same_on_both"] and board["share"]["words_8"] >= FLOOR
    return board


_WORDS = {
    "words_8": "word search, among 8",
    "words_1": "word search, the first",
    "auto_3": "auto recall, among 3",
    "labels_8": "label look-up, among 8",
}


def render(result: dict[str, Any]) -> str:
    """The result as text for people."""
    lines = [f"{result['questions']} questions on {result['facts']} facts (English, Chinese)"]
    for name, words in _WORDS.items():
        lines.append(f"  {words:24} {result['hits'][name]:>4}  {result['share'][name]:>6.1%}")
    lines.append(
        f"Board and PC rank alike: {'yes' if result['same_on_both'] else 'NO'};"
        f" in budget ({FLOOR:.0%} among 8): {'yes' if result['within'] else 'NO'}"
    )
    lines += [f"  not found: {question}" for question in result["missed"]]
    return "\n".join(lines)
