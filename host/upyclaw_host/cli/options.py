"""Options that several commands take: one name, type and sentence each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

json_document = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

board_port = click.option(
    "--port", help="The board's serial port; looked for if there is only one."
)

board_settings = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the board. For a key or password write KEY=? and be asked for it: what "
    "stands here stays in the history of your shell.",
)


def ask_secret(name: str) -> str:
    """The value of `--set NAME=?`: typed without echo, or a line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(f"{name} (not shown)", hide_input=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")


flash_image = click.option(
    "--flash",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("flash.img"),
    show_default=True,
    help="Flash image of the simulated board, which holds its memory; made if there is none.",
)


def model_source(function: _F) -> _F:
    """--provider, --model and --record: which model answers, and the record of what it got."""
    for option in (
        click.option(
            "--record",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Append every request body the model gets to FILE (JSON lines).",
        ),
        click.option("--model", metavar="MODEL", help="Model name, or a FILE.gguf for local."),
        click.option(
            "--provider",
            metavar="NAME",
            help="openai, anthropic, local or script:FILE; else the config's, else local.",
        ),
    ):
        function = option(function)
    return function
