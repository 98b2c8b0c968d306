"""`upyclaw backup`: pull everything a board remembers, checked on both sides."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from upyclaw_host.cli import options
from upyclaw_host.cli.progress import byte_bar, set_total
from upyclaw_host.formats.catalog import load_catalog
from upyclaw_host.formats.findings import Finding, has_faults
from upyclaw_host.install.backup import SECRETS, backup
from upyclaw_host.install.findport import find_port
from upyclaw_host.repl import Repl
from upyclaw_host.source import DirectorySource


@click.command("backup")
@options.board_port
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.json_document
def command(port: str | None, folder: Path, as_json: bool) -> None:
    """Copy all that the board at --port keeps into the new directory DIR.

    The directory is a SOURCE for the other commands. It holds secrets in clear: keys in
    config.json, Wi-Fi passwords in wifi.json, the page's tokens in data/web_tokens. Only you
    can read its files; keep it so.
    """
    with Repl(port or find_port()) as repl:
        try:
            with byte_bar("backup") as (advance, bar):
                saved = backup(repl, folder, lambda size: set_total(bar, size), advance)
        finally:
            repl.restart()
    damage = [f for f in damaged(folder) if f.file not in {path[1:] for path in saved.short}]
    secrets = [path for path in SECRETS if path in saved.files]
    if as_json:
        facts = {
            "folder": str(folder),
            "board": saved.board,
            "files": len(saved.files),
            "bytes": saved.size,
            "secrets": secrets,
            "short": saved.short,
            "damaged": [finding.as_dict() for finding in damage],
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        click.echo(f"{folder}: {len(saved.files)} files, {saved.size:,} bytes.")
        if secrets:
            named = ", ".join(f"{path[1:]} ({SECRETS[path]})" for path in secrets)
            click.echo(f"Secrets lie there in clear, for your eyes only: {named}.")
        for path in saved.short:
            click.echo(f"{path}: short copy, the board has more: make the backup again.")
        for finding in damage:
            click.echo(f"{finding.file}: damaged on the board itself: {finding.message}")
    if saved.short or has_faults(damage):
        sys.exit(1)


def damaged(folder: Path) -> list[Finding]:
    """What is wrong with the sessions in true copies, and so on the board."""
    catalog = load_catalog(DirectorySource(folder))
    found = [finding for session in catalog.sessions for finding in session.all_findings()]
    return [finding for finding in found if has_faults([finding])]
