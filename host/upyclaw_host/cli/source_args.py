"""The arguments SOURCE and more of the commands that read a board's files.

With --port the SOURCE is left out. Owns how they are told apart; source.py opens what they name,
and complains if they name nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from upyclaw_host.errors import UserError

_F = TypeVar("_F", bound=Callable[..., Any])


def source_arguments(metavar: str) -> Callable[[_F], _F]:
    """The parameters `places` and `port`; `metavar` is what the help shows for the former."""

    def add(function: _F) -> _F:
        port = click.option("--port", help="Work with the board at this port, not with SOURCE.")
        return port(click.argument("places", nargs=-1, metavar=metavar)(function))

    return add


def split_source(places: tuple[str, ...], port: str | None) -> tuple[str | None, list[str]]:
    """`(source, further arguments)`; no source with `port`, or if there are no arguments."""
    if port is not None or not places:
        return None, list(places)
    return places[0], list(places[1:])


def split_session(places: tuple[str, ...], port: str | None) -> tuple[str | None, str | None]:
    """`(source, id of a session)`; the id may be left out."""
    source, rest = split_source(places, port)
    if len(rest) > 1:
        raise UserError(f'"{rest[1]}" is too much: the arguments are SOURCE and one ID.')
    return source, rest[0] if rest else None
