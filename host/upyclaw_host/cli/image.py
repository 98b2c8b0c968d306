"""`upyclaw image`: one file that flashes MicroPython and upyclaw."""

from __future__ import annotations

import json
from pathlib import Path

import click

from upyclaw_host.boards import load_board
from upyclaw_host.cli import options
from upyclaw_host.errors import UserError
from upyclaw_host.install import settings
from upyclaw_host.install.image import merge
from upyclaw_host.install.partitions import read_image


@click.command("image")
@click.option("--board", "name", required=True, help="Which board; see `upyclaw boards`.")
@click.option(
    "--base",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="BIN",
    help="The MicroPython image to build on.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with settings.")
@options.board_settings
@options.json_document
def command(
    name: str, base: Path, out: Path, config: Path | None, sets: tuple[str, ...], as_json: bool
) -> None:
    """Merge a MicroPython image with a ready file system; one esptool command flashes both.

    Flashing it deletes what the board remembers: for a board in use take `upyclaw install`.
    """
    board = load_board(name)
    if board.simulated:
        raise UserError(
            "The simulated board has MicroPython built in: `upyclaw flash new` makes its flash."
        )
    layers = [settings.template(board)]
    layers += [settings.from_toml(config)] if config else []
    layers += [settings.from_flag(text, options.ask_secret) for text in sets]
    made = merge(board, read_image(base, board), out, settings.encode(settings.merge(*layers)))
    if as_json:
        facts = {
            "image": str(out),
            "size": made.size,
            "offset": board.chip.offset,
            "vfs": {"offset": made.region.offset, "size": made.region.size},
            "command": made.command,
        }
        click.echo(json.dumps(facts))
    else:
        click.echo(f"{out}: {made.size:,} bytes. To flash a new board (deletes its memory):")
        click.echo(f"  {made.command}")
