"""The long-term memory's part of `upyclaw bench wear`: erases a fact costs, and a recall.

Owns the numbers of the reference and the budget. The counting happens in real MicroPython on real
LittleFS: `device/memory_wear.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upyclaw_host.bench.device_run import run_script

# Bytes the reference wrote for the same 160 facts (golden/longterm/l2_store_cost).
REFERENCE_BYTES = 4_969_131
# Erases a short fact may cost on average.
BUDGET = 3.0


def run(progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Measure a burst of facts and a slow chat with idle time between. Raises UserError."""
    result: dict[str, Any] = {"reference_bytes": REFERENCE_BYTES, "budget": BUDGET, "cases": []}
    for name, arguments in (("a minute apart", ()), ("an hour apart, idle between", ("idle",))):
        progress(name)
        (case,) = run_script("memory_wear", *arguments, heap="8M")
        case["case"] = name
        case["erases_per_fact"] = round(case["store_erases"] / case["facts"], 2)
        case["erases_per_recall"] = round(case["recall_erases"] / case["recalls"], 3)
        case["within"] = case["erases_per_fact"] <= BUDGET
        result["cases"].append(case)
    return result


def render(result: dict[str, Any]) -> str:
    """The result as text for people."""
    first = result["cases"][0]
    lines = [
        f"long-term memory: {first['facts']} facts, {first['text_bytes']:,} bytes of text",
        f"  the reference wrote {result['reference_bytes']:,} bytes for them",
    ]
    for case in result["cases"]:
        lines.append(
            f"  {case['case']:28} {case['store_bytes']:>9,} bytes programmed,"
            f" {case['erases_per_fact']:.2f} erases a fact,"
            f" {case['erases_per_recall']:.3f} a recall"
            f"  (in budget of {result['budget']:.0f}: {'yes' if case['within'] else 'NO'})"
        )
    return "\n".join(lines)
