"""`upyclaw doctor`: say in words what is wrong with a board and what to do.

Owns: arguments and output. The judgement is in `upyclaw_host.doctor`.
"""

from __future__ import annotations

import json
import sys

import click
from rich.console import Console
from rich.text import Text

from upyclaw_host.cli import options
from upyclaw_host.doctor import Check, State, examine
from upyclaw_host.plain import plain
from upyclaw_host.source import open_source

_MARKS = {State.FINE: ("✓", "green"), State.HINT: ("!", "yellow"), State.FAULT: ("✗", "red")}


@click.command("doctor")
@click.argument("source", required=False)
@click.option("--port", help="Look at the board at this port instead of SOURCE.")
@options.json_document
def command(source: str | None, port: str | None, as_json: bool) -> None:
    """Say what is wrong with a board and what to do.

    Exit code 1 if something is. SOURCE is a directory with files pulled from a board, a LittleFS
    image, or --port PORT for a live board. Nothing is changed.
    """
    files = open_source(None if port is not None else source, port=port)
    try:
        checks = examine(files)
        label = files.label
    finally:
        files.close()
    bad = any(check.state is State.FAULT for check in checks)
    if as_json:
        told = {"source": label, "ok": not bad, "checks": [check.as_dict() for check in checks]}
        text = json.dumps(told, ensure_ascii=False, indent=2)
        click.echo(text.encode("utf-8", "replace").decode())
    else:
        _print(checks)
    if bad:
        sys.exit(1)


def _print(checks: list[Check]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    for check in checks:
        mark, style = _MARKS[check.state]
        line = Text(f"{mark} ", style=style)
        line.append(f"{check.what:9} ", style="bold")
        line.append(plain(check.says))
        console.print(line, soft_wrap=True)
        if check.do:
            console.print(Text(f"            → {plain(check.do)}"), soft_wrap=True)
