"""Options that several commands take: one name, type and sentence each. Owns no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

json_document = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

board_port = click.option(
    "--port", help="The board's serial port; looked for if there is only one."
)

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
