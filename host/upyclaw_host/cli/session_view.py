"""How sessions look on a terminal, and the same facts as JSON.

Owns: layout. Text from files is shown without terminal escape codes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from upyclaw_host.formats.catalog import Catalog, Session
from upyclaw_host.formats.findings import Finding, Severity, has_faults
from upyclaw_host.formats.messages import Message, ToolCall, Turn, turns
from upyclaw_host.mend import Outcome
from upyclaw_host.plain import plain

_STYLES = {Severity.INFO: "dim", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_MAX_RESULT_LINES = 12
_WHO = {"user": ("You", "bold cyan"), "assistant": ("Bot", "bold green")}
_WHO_WIDTH = 5


def _console(pipe_width: int | None = None) -> Console:
    """A console; `pipe_width` is used where nobody looks (a pipe), so that no name is broken."""
    width = None if sys.stdout.isatty() else pipe_width
    return Console(file=sys.stdout, highlight=False, width=width)


def summary(session: Session) -> dict[str, Any]:
    """The facts of one session for `ls` and `verify`."""
    pair = session.pair
    found = session.all_findings()
    return {
        "id": session.id,
        "alias": session.alias,
        "chat": session.chat,
        "current": session.current,
        "file": session.files.get("data", session.base),
        "records": len(pair.records),
        "turns": sum(turn.number > 0 for turn in turns(pair.records)),
        "bytes": pair.data_size,
        "unindexed": pair.unindexed,
        "pending": pair.pending,
        "blocked": pair.blocked,
        "read_only": pair.read_only,
        "faults": sum(finding.is_fault for finding in found),
    }


def _state(told: dict[str, Any]) -> Text:
    words = []
    if told["faults"]:
        words.append(f"{told['faults']} fault{'s' if told['faults'] > 1 else ''}")
    words += [name for name in ("blocked", "pending") if told[name]]
    if told["read_only"]:
        words.append("unknown version")
    style = "red" if told["faults"] else "yellow" if words else "green"
    return Text(", ".join(words) or "fine", style=style)


def print_list(catalog: Catalog, told: Sequence[dict[str, Any]]) -> None:
    """The table of `session ls`."""
    console = _console(pipe_width=200)
    if not told:
        console.print(f"No sessions in {catalog.label}.", markup=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "session", "chat"):
        table.add_column(name, overflow="fold")
    for name in ("turns", "records", "bytes"):
        table.add_column(name, justify="right")
    table.add_column("state")
    table.add_column("file", overflow="fold", style="dim")
    for one in told:
        table.add_row(
            "*" if one["current"] else "",
            Text(plain(one["alias"] or one["id"] or one["file"])),
            Text(plain(one["chat"] or "")),
            f"{one['turns']:,}",
            f"{one['records']:,}",
            f"{one['bytes']:,}",
            _state(one),
            Text(plain(one["file"]) if one["alias"] or one["id"] else ""),
        )
    console.print(table)


def _place(finding: Finding) -> str:
    return finding.file if finding.offset is None else f"{finding.file}:{finding.offset}"


def print_findings(findings: Iterable[Finding], indent: int = 0) -> None:
    """One line a finding: file:byte, severity, sentence."""
    console = _console()
    for finding in findings:
        line = Text(" " * indent)
        line.append(finding.severity.value.ljust(8), style=_STYLES[finding.severity])
        line.append(plain(_place(finding)) + "  ", style="bold")
        line.append(plain(finding.message))
        console.print(line, soft_wrap=True)


def print_checks(catalog: Catalog, checked: Sequence[tuple[Session, list[Finding]]]) -> None:
    """The result of `session verify`."""
    console = _console()
    bad = 0
    for session, found in checked:
        faults = has_faults(found)
        bad += faults
        mark = Text("✗ ", style="red") if faults else Text("✓ ", style="green")
        size = f"{len(session.pair.records):,} records, {session.pair.data_size:,} bytes"
        console.print(mark + Text(f"{plain(session.title)}: {size}"), soft_wrap=True)
        print_findings(found, indent=2)
    total = len(checked)
    verdict = f"{bad} of {total} with faults" if bad else f"{total} checked, no faults"
    verdict = verdict if total else "it holds no sessions yet, so nothing was checked"
    console.print(f"{catalog.label}: {verdict}.", markup=False, soft_wrap=True)


def conversation(session: Session) -> dict[str, Any]:
    """`session show --json`."""
    told = summary(session)
    told["turns"] = [
        {
            "turn": turn.number,
            "completed": turn.completed,
            "messages": [message.as_dict() for message in turn.messages],
        }
        for turn in turns(session.pair.records)
    ]
    told["findings"] = [finding.as_dict() for finding in session.all_findings()]
    return told


def print_raw(session: Session) -> None:
    """The records as they lie in the file, byte for byte on a pipe."""
    out = sys.stdout.buffer
    sys.stdout.flush()
    for record in session.pair.records:
        out.write(
            plain(record.raw.decode("utf-8", "replace")).encode() if out.isatty() else record.raw
        )
        out.write(b"\n")
    out.flush()


def _fit(text: str, width: int) -> str:
    """One line of at most `width` cells (Chinese letters take two)."""
    line = " ".join(plain(text).split())
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


def _fold(call: ToolCall, result: Message | None, width: int) -> Text:
    """A call and its result in one line."""
    head = f"{plain(call.name)}({_fit(call.arguments, width // 3)})"
    line = Text("⚙ ", style="magenta")
    line.append(head, style="magenta")
    if result is None:
        line.append(" → no result", style="yellow")
        return line
    line.append(" → ", style="dim")
    rest = max(16, width - cell_len(line.plain))
    told = ("failed: " if result.is_error else "") + (result.text or "(empty)")
    line.append(_fit(told, rest), style="red" if result.is_error else "dim")
    return line


def _result_text(message: Message, full: bool) -> Text:
    lines = plain(message.text).splitlines() or ["(empty)"]
    left = 0 if full else max(0, len(lines) - _MAX_RESULT_LINES)
    text = Text("\n".join(lines[: len(lines) - left]), style="red" if message.is_error else "dim")
    if left:
        text.append(f"\n… {left} more lines", style="italic dim")
    return text


def _rows(turn: Turn, width: int, full: bool) -> Iterable[tuple[Text, Any]]:
    """`(who, what)` of a turn's messages; results of folded calls go into the call's line."""
    messages = turn.messages
    calls = {call.id for message in messages for call in message.calls}
    results: dict[str, list[Message]] = {}
    for message in messages:
        if message.role == "tool":
            results.setdefault(message.call_id, []).append(message)
    for message in messages:
        if message.role == "tool":
            if full or message.call_id not in calls:
                yield Text("tool", style="magenta"), _result_text(message, full)
            continue
        if message.role == "damaged":
            yield (
                Text("?", style="red"),
                Text(f"(damaged) {_fit(message.text, width)}", style="red"),
            )
            continue
        name, style = _WHO.get(message.role, (message.role[:_WHO_WIDTH], "bold"))
        if full and message.reasoning:
            yield Text("…", style="dim"), Text(plain(message.reasoning), style="italic dim")
        if message.text or not message.calls:
            body = Text(plain(message.text)) if message.text else Text("(empty)", style="dim")
            yield Text(plain(name), style=style), body
        for call in message.calls:
            if full:
                what = Text(f"⚙ {plain(call.name)}({plain(call.arguments)})", style="magenta")
                yield Text(""), what
            else:
                answers = results.get(call.id)
                yield Text(""), _fold(call, answers.pop(0) if answers else None, width)


def _turn(turn: Turn, width: int, full: bool, pending: bool) -> Group:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_WHO_WIDTH, no_wrap=True)
    grid.add_column(overflow="fold")
    for who, what in _rows(turn, width - _WHO_WIDTH - 1, full):
        grid.add_row(who, what)
    if not turn.completed:
        why = "waits for its answer" if pending else "no answer was kept"
        grid.add_row(Text(""), Text(f"({why})", style="yellow"))
    title = f" {turn.number} " if turn.number else " before the first question "
    return Group(Rule(title, align="left", style="dim"), Padding(grid, (0, 0, 1, 0)))


def print_conversation(session: Session, full: bool) -> None:
    """The conversation, turn by turn."""
    console = _console()
    pair, told = session.pair, summary(session)
    name = f"{session.title} ({session.id})" if session.id else session.title
    head = Text(plain(name), style="bold")
    head.append(
        f"  {told['turns']} turns, {told['records']} records, {pair.data_size:,} bytes  ", "dim"
    )
    console.print(head + _state(told))
    found = [f for f in session.all_findings() if f.is_fault]
    print_findings(found)
    shown = turns(pair.records)
    for turn in shown:
        waits = pair.pending and turn is shown[-1]
        console.print(_turn(turn, console.width, full, waits))


def print_outcome(outcome: Outcome) -> None:
    """The result of `session repair` and `session compact` for one session."""
    console = _console()
    head = Text(plain(outcome.title), style="bold")
    if outcome.untouched:
        head.append(f": {outcome.untouched}", "yellow")
        console.print(head, soft_wrap=True)
        return
    sizes = f"{outcome.size_before:,} → {outcome.size_after:,} bytes"
    head.append(f": {outcome.kept} records kept unchanged, {sizes}", "not bold")
    console.print(head, soft_wrap=True)
    moved = [f"{name} ({size:,} bytes)" for name, size in outcome.moved.items()]
    parts = (
        ("changed", outcome.changed, "yellow"),
        ("dropped", outcome.dropped, "red"),
        ("added", outcome.added, "cyan"),
        ("set aside", moved, "magenta"),
        ("the board says", outcome.notices, "dim"),
    )
    for name, lines, style in parts:
        for line in lines:
            console.print(Text(f"  {name}: ", style) + Text(plain(line)), soft_wrap=True)
    print_findings(outcome.left, indent=2)
