"""`upyclaw relay`: serve model requests of boards on a serial port and over the network.

Owns: connecting again when the cable comes back, the quiet log, the tokens' commands. Must not
touch: frames, HTTP, providers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from upyclaw_host.cli import options
from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.link import HostLink
from upyclaw_host.relay import ProviderError, Relay, Served, make_provider, serve_link
from upyclaw_host.relay.tokens import Tokens

RECONNECT_SECONDS = 1.0
HELLO_SECONDS = 10.0


@click.group(invoke_without_command=True)
@click.option("--port", metavar="P", help="Serial port of a board.")
@click.option(
    "--listen",
    metavar="ADDR",
    help="Serve boards over the network on HOST:PORT, :PORT or HOST; each needs a token.",
)
@options.model_source
@click.pass_context
def command(
    context: click.Context,
    port: str | None,
    listen: str | None,
    provider: str | None,
    model: str | None,
    record: Path | None,
) -> None:
    """Serve model requests to boards over serial port and network, until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    if not port and not listen:
        raise UserError("upyclaw relay needs --port P or --listen ADDR, or both.")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    config = load_config()
    for hint in config.hints:
        console.print(escape(hint), style="yellow")
    made = make_provider(provider, config, model=model, record=record)

    def waiting(seconds: float, error: ProviderError) -> None:
        console.print(f"  waiting {seconds:g} s: {escape(error.message)}", style="yellow")

    relay = Relay(made, on_wait=waiting)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(port, listen, relay, console))
    console.print("Stopped.")


async def _serve(port: str | None, listen: str | None, relay: Relay, console: Console) -> None:
    """Serve both ways until one of them fails or Ctrl-C."""
    info = relay.info()
    works = []
    if listen:
        works.append(_network(listen, relay, console))
    if port:
        works.append(_port(port, relay, console))
    console.print(f"Model {escape(str(info['model']))} ({info['provider']}), Ctrl-C ends.")
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await relay.close()


def _network(listen: str, relay: Relay, console: Console) -> Coroutine[Any, Any, None]:
    """The HTTP server, bound already."""
    from upyclaw_host.relay.http import HttpRelay, RelayServer, parse_address

    host, number = parse_address(listen)
    tokens = Tokens()
    if not tokens.names():
        raise UserError(
            "No board has a token for --listen: make one with `upyclaw relay token add NAME`."
        )
    server = RelayServer(HttpRelay(relay, tokens, lambda s: _log(console, s)), host, number)
    console.print(f"Listening on http://{server.host}:{server.port}/v1 for {_list(tokens)}.")
    return server.serve()


def _list(tokens: Tokens) -> str:
    return ", ".join(tokens.names())


async def _port(port: str, relay: Relay, console: Console) -> None:
    """Serve the port; once it has worked, a lost cable is waited for instead of giving up."""
    known = False
    told = False
    while True:
        try:
            await _session(port, relay, console)
            known, told = True, False
            console.print(f"{escape(port)}: connection lost, waiting for it.", style="yellow")
        except UserError as error:
            if not known:
                raise
            if not told:
                console.print(escape(error.message), style="yellow")
                told = True
        await asyncio.sleep(RECONNECT_SECONDS)


async def _session(port: str, relay: Relay, console: Console) -> None:
    """One connection, from hello to the end of the link."""
    link = await HostLink.open(port, on_log=lambda line: console.print(escape(line), style="dim"))
    serving = asyncio.create_task(serve_link(link, relay, lambda served: _log(console, served)))
    try:
        hello = await link.hello(relay.info(), timeout=HELLO_SECONDS)
        version = f"board {hello.get('board')}, firmware {hello.get('firmware')}"
        console.print(f"{escape(port)}: {escape(version)}.")
        await serving
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        await link.close()


def _log(console: Console, served: Served) -> None:
    """One line a request; sizes only, never what was said."""
    text = (
        f"  {served.kind}: {served.received:,} B in, {served.sent:,} B out, {served.seconds:.1f} s"
    )
    if served.first is not None and served.error is None:
        text += f" (first words after {served.first:.1f} s)"
    console.print(text)
    if served.error:
        console.print(f"  {escape(served.error)}", style="red")


@command.group()
def token() -> None:
    """Tokens of the boards that use the relay over the network."""


@token.command("add")
@click.argument("name")
@options.json_document
def token_add(name: str, as_json: bool) -> None:
    """Make a token for the board NAME and print it, this once."""
    again = name in Tokens().names()
    made = Tokens().add(name)
    if again:
        click.echo(f"{name} had a token; the old one is worth nothing from now on.", err=True)
    if as_json:
        click.echo(json.dumps({"name": name, "token": made}))
    else:
        click.echo(made)
        click.echo(
            "Put it into the board's settings as model.api_key (docs/network.md).", err=True
        )


@token.command("list")
@options.json_document
def token_list(as_json: bool) -> None:
    """Names of the boards that have a token."""
    names = Tokens().names()
    if as_json:
        click.echo(json.dumps({"names": names}))
    for name in [] if as_json else names:
        click.echo(name)


@token.command("remove")
@click.argument("name")
def token_remove(name: str) -> None:
    """Take the token of the board NAME away."""
    Tokens().remove(name)
    click.echo(f"{name} has no token any more.", err=True)
