"""The command `upyclaw`: parsing, exit codes, one-sentence errors; a module for each command."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys

import click

from upyclaw_host import __version__
from upyclaw_host.errors import UserError

# command name -> module in this package that holds a click command named `command`
_COMMANDS = {
    "chat": "chat",
    "sim": "sim",
    "relay": "relay",
    "session": "session",
    "memory": "memory",
    "context": "context",
    "flash": "flash",
    "boards": "boards",
    "install": "install",
    "image": "image",
    "wifi": "wifi",
    "backup": "backup",
    "restore": "restore",
    "doctor": "doctor",
    "bench": "bench",
}


class LazyGroup(click.Group):
    """Imports a command's module only when that command is used: quick start, few imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = _COMMANDS.get(cmd_name)
        if name is None:
            return None
        module = importlib.import_module(f"upyclaw_host.cli.{name}")
        command = module.command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="upyclaw")
def cli() -> None:
    """Chat with a board that remembers; inspect, check and back up its memory."""


def main(argv: list[str] | None = None) -> None:
    """Entry point. Ends the process with 0, 1 (findings, failed turn) or 2 (wrong use)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or file that has no Chinese shows question marks instead of a traceback.
            stream.reconfigure(errors="replace")
    try:
        code = cli.main(args=argv, prog_name="upyclaw", standalone_mode=False)
    except UserError as error:
        click.echo(f"upyclaw: {error.message}", err=True)
        code = error.exit_code
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.Abort:
        click.echo("upyclaw: stopped.", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except OSError as error:
        # Of the computer, not of the board: a full disk below the output, for one.
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"upyclaw: {where}{error.strerror or error}.", err=True)
        with contextlib.suppress(OSError):
            # What could not be written is not tried again at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
