"""How memories look on a terminal, and the same facts as JSON.

Owns: layout. Text from files is shown without terminal escape codes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upyclaw_host.cli.session_view import print_findings
from upyclaw_host.formats.findings import Finding, has_faults
from upyclaw_host.formats.memory import PROFILE, Memory
from upyclaw_host.formats.memory_digest import Event
from upyclaw_host.formats.memory_items import CAPACITY, Item
from upyclaw_host.memory_work import Applied
from upyclaw_host.plain import plain

# Where an item came from, by its source.
ORIGINS = {
    "user": "an order of the user to remember it",
    "manual": "a command, a tool call of the model, or the page",
    "auto_llm": "taken by a model from what the user said",
}
_STYLES = {"dropped": "yellow", "forgotten": "red", "same": "dim"}


def _console(pipe_width: int | None = None) -> Console:
    """A console; `pipe_width` is used where nobody looks (a pipe), so that nothing is folded."""
    width = None if sys.stdout.isatty() else pipe_width
    return Console(file=sys.stdout, highlight=False, width=width)


def _print_table(console: Console, table: Table) -> None:
    """Print a table; on a pipe without the blanks that fill its last column."""
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    console.out("\n".join(line.rstrip() for line in capture.get().splitlines()))


def when(seconds: int) -> str:
    """Local date and time, `-` for an unknown one."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"


def as_dict(item: Item, score: int) -> dict[str, Any]:
    """An item as plain JSON values; `score` decides who goes when the memory is full."""
    return {
        "id": item.id,
        "content": item.content,
        "labels": list(item.labels),
        "tags": item.tags,
        "keywords": item.keywords,
        "source": item.source,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "access_count": item.access_count,
        "pinned": item.pinned,
        "score": score,
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "time": event.time,
        "action": event.action,
        "id": event.id,
        "extra": event.extra,
        "told": event.told,
    }


def listing(memory: Memory, label: str, items: Sequence[Item], now: int) -> dict[str, Any]:
    """`memory ls --json`."""
    scores = memory.scores(now)
    counts: dict[str, int] = {}
    for item in memory.items:
        for name in item.labels:
            counts[name] = counts.get(name, 0) + 1
    return {
        "source": label,
        "folder": memory.folder,
        "total": len(memory.items),
        "items": [as_dict(item, scores[item.id]) for item in items],
        "labels": [{"label": name, "items": count} for name, count in counts.items()],
        "profile": {name: len(memory.files[name]) for name in PROFILE if name in memory.files},
    }


def print_list(memory: Memory, label: str, items: Sequence[Item]) -> None:
    """The table of `memory ls`, hottest first."""
    console = _console(pipe_width=400)
    if not items:
        none = "Nothing is remembered" if not memory.items else "No memory fits"
        console.print(f"{none} in {label}.", markup=False, soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("used", justify="right")
    table.add_column("last used", no_wrap=True)
    table.add_column("id", no_wrap=True, style="dim")
    table.add_column("labels", overflow="fold")
    table.add_column("memory", overflow="fold")
    for item in items:
        text = Text("📌 " if item.pinned else "") + Text(plain(item.content))
        table.add_row(
            f"{item.access_count:,}",
            when(item.updated_at),
            Text(plain(item.id)),
            Text(plain(", ".join(item.labels))),
            text,
        )
    _print_table(console, table)
    shown = f"{len(items)} of {len(memory.items)}" if len(items) < len(memory.items) else "all"
    facts = f"{shown}, {len(memory.items)} of {CAPACITY} places taken."
    console.print(Text(facts, style="dim"), soft_wrap=True)


def showing(memory: Memory, wanted: str, now: int) -> dict[str, Any]:
    """`memory show --json`; "item" is None if only the digest knows the id."""
    item = memory.get(wanted)
    told: dict[str, Any] = {"id": wanted, "item": None, "origin": None, "heat": None}
    if item is not None:
        scores = memory.scores(now)
        told["item"] = as_dict(item, scores[wanted])
        told["origin"] = ORIGINS.get(item.source, item.source or "unknown")
        order = [one.id for one in memory.by_heat(now)]
        free = sorted(
            (one for one in memory.items if not one.pinned), key=lambda one: scores[one.id]
        )
        told["heat"] = {
            "place": order.index(wanted) + 1,
            "of": len(order),
            "evicted_before": sum(scores[one.id] < scores[wanted] for one in free),
        }
    told["history"] = [_event(event) for event in memory.history(wanted)]
    return told


def print_item(told: dict[str, Any]) -> None:
    """`memory show`: the item, where it comes from, what happened to it."""
    console = _console()
    item = told["item"]
    head = Text(plain(told["id"]), style="bold")
    if item is None:
        console.print(head + Text("  not remembered any more", style="yellow"))
    else:
        console.print(head + Text("  📌 pinned" if item["pinned"] else "", style="cyan"))
        console.print(Text(plain(item["content"])), soft_wrap=True)
        heat = told["heat"]
        going = (
            "never evicted" if item["pinned"] else f"{heat['evicted_before']} would go before it"
        )
        place = f"place {heat['place']} of {heat['of']}, score {item['score']:,}; {going}"
        rows = (
            ("labels", ", ".join(item["labels"]) or "-"),
            ("keywords", item["keywords"] or "-"),
            ("comes from", told["origin"]),
            ("stored", when(item["created_at"])),
            ("last used", f"{when(item['updated_at'])}, {item['access_count']:,} times in all"),
            ("heat", place),
        )
        grid = Table.grid(padding=(0, 2))
        for name, text in rows:
            grid.add_row(Text(name, style="dim"), Text(plain(text)))
        console.print(grid)
    if told["history"]:
        console.print(Text("history", style="dim"))
    for event, times in _folded(told["history"]):
        more = f" ({times} times)" if times > 1 else ""
        other = "" if event["id"] == told["id"] else f" [{event['id']}]"
        line = f"  {when(event['time'])}  {event['told']}{other}{more}"
        console.print(Text(plain(line)), soft_wrap=True)


def _folded(history: Sequence[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], int]]:
    """Recalls one after the other as one line, with the time of the last."""
    run: list[dict[str, Any]] = []
    for event in history:
        if run and run[-1]["action"] == event["action"] == "recall":
            run.append(event)
            continue
        if run:
            yield run[-1], len(run)
        run = [event]
    if run:
        yield run[-1], len(run)


def print_recalled(items: Sequence[dict[str, Any]]) -> None:
    """`memory recall`: one line an item, best first."""
    console = _console(pipe_width=400)
    if not items:
        console.print("Nothing that is remembered has these words.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    if "score" in items[0]:
        table.add_column("score", justify="right")
    table.add_column("used", justify="right")
    table.add_column("id", no_wrap=True, style="dim")
    table.add_column("labels", overflow="fold")
    table.add_column("memory", overflow="fold")
    for item in items:
        score = [str(item["score"])] if "score" in item else []
        table.add_row(
            *score,
            f"{item['access_count']:,}",
            Text(plain(item["id"])),
            Text(plain(", ".join(item["labels"]))),
            Text(plain(item["content"])),
        )
    _print_table(console, table)


def print_check(label: str, memory: Memory, findings: Sequence[Finding]) -> None:
    """The result of `memory verify`."""
    console = _console()
    print_findings(findings)
    bad = has_faults(findings)
    mark = Text("✗ ", style="red") if bad else Text("✓ ", style="green")
    records = memory.records
    size = f"{records.size:,} bytes, {records.dead_bytes:,} of them of old lines"
    verdict = "with faults" if bad else "no faults"
    facts = f"{label}: {len(memory.items)} memories ({size}), {verdict}."
    console.print(mark + Text(plain(facts)), soft_wrap=True)


def print_applied(done: Applied) -> None:
    """The result of `memory apply`: each candidate, what became of it, and why."""
    console = _console()
    if done.asked:
        text = f"A board would not have asked a model about this text: {done.asked}."
        console.print(Text(text, style="yellow"), soft_wrap=True)
    for notice in done.notices:
        console.print(Text(f"the board says: {plain(notice)}", style="dim"), soft_wrap=True)
    if not done.readable:
        text = "The reply is not in the form asked for: nothing in it was looked at."
        console.print(Text(text, style="red"), soft_wrap=True)
        return
    if not done.candidates:
        console.print("The reply names no memory.")
    for one in done.candidates:
        line = Text(f"{one['what']:10}", style=_STYLES.get(one["what"], "green"))
        line.append(plain(one["content"] or "-"))
        line.append(f"  ({plain(one['why'])}", style="dim")
        line.append(f"; {plain(one['id'])})" if one["id"] else ")", style="dim")
        console.print(line, soft_wrap=True)
    for change in done.changed:
        text = f"{change['id']}: {change['before']} → {change['after']}"
        console.print(Text("  changed  ", style="cyan") + Text(plain(text)), soft_wrap=True)
    for gone in done.removed:
        text = f"{gone['id']}: {gone['content']}"
        console.print(Text("  gone     ", style="red") + Text(plain(text)), soft_wrap=True)
    if done.note:
        console.print(Text(plain(done.note), style="bold"), soft_wrap=True)
