"""`upyclaw sim`: run a simulated board and print its serial port."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from types import FrameType

import click

from upyclaw_host.cli import options
from upyclaw_host.errors import UserError
from upyclaw_host.sim import SimBoard


@click.command("sim")
@options.flash_image
@click.option("--board", default="sim", show_default=True, help="Which board's limits to take.")
@click.option(
    "--baud",
    type=click.IntRange(min=300),
    help="Slow the line down to this speed; without it bytes travel at once.",
)
@click.option(
    "--network",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="JSON file with the Wi-Fi networks around the board (docs/network.md); default: none.",
)
@click.option("--keep-firmware", is_flag=True, help="Leave the firmware on the image as it is.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the port.")
def command(
    flash: Path,
    board: str,
    baud: int | None,
    network: Path | None,
    keep_firmware: bool,
    as_json: bool,
) -> None:
    """Run a simulated board until Ctrl-C and print its serial port."""
    if network is not None:
        _check(network)
    signal.signal(signal.SIGTERM, _interrupt)
    simulated = SimBoard(
        flash,
        board,
        baud=baud,
        network=network,
        update=not keep_firmware,
        on_event=lambda text: click.echo(f"board: {text}", err=True),
    )
    with simulated:
        if as_json:
            click.echo(
                json.dumps({"port": simulated.port, "flash": str(simulated.flash), "board": board})
            )
        else:
            click.echo(simulated.port)
            click.echo(
                f"A {simulated.spec.title} runs on {simulated.flash}. Ctrl-C switches it off.",
                err=True,
            )
        try:
            while simulated.failure is None:
                time.sleep(0.2)
        except KeyboardInterrupt:
            return
        raise UserError(simulated.failure, exit_code=1)


def _check(network: Path) -> None:
    """The board would take a file that it can't read for a place without Wi-Fi."""
    try:
        fine = isinstance(json.loads(network.read_bytes())["networks"], dict)
    except (ValueError, KeyError, TypeError):
        fine = False
    if not fine:
        raise UserError(
            f'{network} is no JSON object with "networks" in it; docs/network.md shows one.'
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
