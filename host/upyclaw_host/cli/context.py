"""`upyclaw context`: print the request that a board would send for a line.

Owns: arguments and output. The body is made by the device's own agent (`board_request`).
"""

from __future__ import annotations

import json
import sys

import click

from upyclaw_host.board_request import BoardRequest, make_request
from upyclaw_host.cli import options
from upyclaw_host.cli.source_args import source_arguments, split_session
from upyclaw_host.formats.catalog import Session, load_catalog
from upyclaw_host.formats.memory import load_memory
from upyclaw_host.formats.names import session_file_name
from upyclaw_host.plain import plain
from upyclaw_host.source import Source, open_source, pulled

_SERIAL = "chat:serial:usb"  # the chat of whoever sits at the serial line


@click.command()
@source_arguments("SOURCE [ID]")
@click.option("--text", required=True, help="The user's next line.")
@click.option(
    "--context-tokens",
    type=click.IntRange(1024, 2_000_000),
    help="Tokens the model takes in all; else what the board's settings say.",
)
@click.option(
    "--tools/--no-tools", default=None, help="Whether the model calls tools; yes by default."
)
@options.json_document
def command(
    places: tuple[str, ...],
    port: str | None,
    text: str,
    context_tokens: int | None,
    tools: bool | None,
    as_json: bool,
) -> None:
    """Print the exact request body a board would send for this text.

    Session ID and memory are those of SOURCE (a directory, a LittleFS image, or --port PORT for a
    live board), the settings those of its /config.json if it is there. Nothing in SOURCE is
    changed, and no model is asked.
    """
    source, wanted = split_session(places, port)
    files = open_source(source, port=port)
    try:
        session = _session(files, wanted)
        memory = load_memory(files)
        made = make_request(files, session, memory, text, context=context_tokens, tools=tools)
        label = files.label
    finally:
        files.close()
    if as_json:
        told = {"source": label, "session": session.title, **made.as_dict()}
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        _print(made)
    if made.body is None:
        sys.exit(1)


def _session(files: Source, wanted: str | None) -> Session:
    """The session asked for; that of the first line on a board where nothing was said yet."""
    catalog = load_catalog(files)
    if wanted is None and not catalog.sessions and (files.live or pulled(files)):
        sid = f"{_SERIAL}:default_01"
        base = session_file_name(sid)
        return Session(base, "", {}, {}, files, id=sid, alias="default_01", chat=_SERIAL)
    return catalog.find(wanted)


def _print(made: BoardRequest) -> None:
    for notice in made.notices:
        click.echo(f"The board says: {plain(notice)}", err=True)
    if made.body is None:
        click.echo("No request: the board answers this line by itself:", err=True)
        click.echo(plain(made.answer), err=True)
        return
    if sys.stdout.isatty():
        click.echo(plain(made.body.decode()))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(made.body)
        sys.stdout.buffer.flush()
    parts = ", ".join(f"{plain(name)} {size:,}" for name, size in made.parts)
    click.echo(
        f"{len(made.body):,} bytes for a context of {made.context:,} tokens: {parts}; "
        f"{made.sent} of {made.records} records sent.",
        err=True,
    )
