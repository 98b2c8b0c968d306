"""`upyclaw restore`: put a backup back on a board; what it replaces is kept."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from upyclaw_host.cli import options
from upyclaw_host.cli.progress import byte_bar
from upyclaw_host.install import backup as backups
from upyclaw_host.install.findport import find_port
from upyclaw_host.repl import Repl


@click.command("restore")
@options.board_port
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where files of the board go that are replaced; default DIR-replaced-TIME.",
)
@options.json_document
def command(port: str | None, folder: Path, keep: Path | None, as_json: bool) -> None:
    """Put the backup in DIR on the board at --port, all of it or nothing.

    Files on the board that the backup does not have stay. Settings, keys and Wi-Fi passwords
    of the backup come back too.
    """
    saved = backups.load(folder)
    keep = keep or _free_name(folder)
    with Repl(port or find_port()) as repl:
        try:
            with byte_bar("restore", saved.size) as (advance, _):
                restored, replaced = backups.restore(repl, saved, keep, advance)
        finally:
            repl.restart()
    if as_json:
        kept = str(keep) if replaced else None
        click.echo(json.dumps({"restored": restored, "replaced": replaced, "kept": kept}))
    elif not restored:
        click.echo("The board has all of it already.")
    else:
        click.echo(f"{len(restored)} files restored.")
        if replaced:
            click.echo(f"{len(replaced)} files that were there before are in {keep}.")


def _free_name(folder: Path) -> Path:
    """A name beside `folder` that nothing has yet, also for `.` and for a second try at once."""
    whole = folder.resolve()
    name = f"{whole.name}-replaced-{time.strftime('%Y%m%d-%H%M%S')}"
    found, number = whole.with_name(name), 1
    while found.exists():
        number += 1
        found = whole.with_name(f"{name}-{number}")
    return found
