"""`upyclaw bench wear`: what a turn costs the flash, beside the reference's way of writing.

Owns the table and the budgets. The counting happens in real MicroPython on real LittleFS:
`device/wear.py`, 200 turns each on a fresh flash of 2 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upyclaw_host.bench import memory_wear
from upyclaw_host.bench.device_run import run_script

# case -> (erases, bytes programmed) a turn may cost; for tool turns a part of the reference's.
BUDGETS = {"plain turn": (1.4, 3600), "long question": (2.3, 5300)}
TOOL_SHARE = 0.55


def run(progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure all cases; `within` of each tells whether it keeps its budget (None: it has none).

    Raises UserError if MicroPython itself fails.
    """
    cases: list[dict[str, Any]] = []
    result: dict[str, Any] = {"cases": cases}
    for line in run_script("wear"):
        name = line.pop("case")
        progress(name)
        if name == "compaction":
            line["within"] = line["programmed"] <= 1.15 * line["kept"] + 3 * 4096
            result["compaction"] = line
            continue
        if name == "opening":
            line["within"] = line["read_beside_idx"] <= 8192
            result["opening"] = line
            continue
        ours, reference = line["ours"], line["reference"]
        for way in (ours, reference):
            way["erases"] = float(way["erases"])
        line["share"] = {
            key: round(ours[key] / reference[key], 3) for key in ("erases", "programmed")
        }
        within = None
        if name in BUDGETS:
            erases, programmed = BUDGETS[name]
            within = ours["erases"] <= erases and ours["programmed"] <= programmed
        elif line["rounds"]:
            within = max(line["share"].values()) <= TOOL_SHARE
        cases.append({"case": name, "within": within, **line})
    result["memory"] = memory_wear.run(progress)
    return result


def _mark(within: bool | None) -> str:
    return "" if within is None else "yes" if within else "NO"


def render(result: dict[str, Any]) -> str:
    """The result as text for people."""
    lines = [
        f"{'per turn':29} {'erases':>15} {'programmed':>17} {'read':>17} {'share':>6}  in budget",
        f"{'':29} {'ours':>7} {'ref.':>7} {'ours':>8} {'ref.':>8} {'ours':>8} {'ref.':>8}",
    ]
    for case in result["cases"]:
        ours, reference = case["ours"], case["reference"]
        lines.append(
            f"{case['case']:29} {ours['erases']:>7.2f} {reference['erases']:>7.2f}"
            f" {ours['programmed']:>8,} {reference['programmed']:>8,}"
            f" {ours['flash_read']:>8,} {reference['flash_read']:>8,}"
            f" {case['share']['erases']:>6.2f}  {_mark(case['within'])}"
        )
    first, last = result["cases"][0]["ours"]["file_bytes_read_per_20_turns"]
    lines.append(
        f"Bytes our code reads from files in 20 plain turns: {first:,} early, {last:,} late."
    )
    compaction = result["compaction"]
    lines.append(
        f"Compaction of 150 KB: {compaction['programmed']:,} bytes programmed and"
        f" {compaction['erases']} erases for {compaction['kept']:,} bytes kept"
        f" (in budget: {_mark(compaction['within'])})."
    )
    opening = result["opening"]
    lines.append(
        f"Opening {opening['data']:,} bytes in {opening['records']:,} records: the idx"
        f" ({opening['idx']:,} bytes) and at most {opening['read_beside_idx']:,} bytes"
        f" (in budget: {_mark(opening['within'])})."
    )
    lines.append(memory_wear.render(result["memory"]))
    return "\n".join(lines)
