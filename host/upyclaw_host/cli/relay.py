"""`upyclaw relay`: serve model requests of a board on a serial port until Ctrl-C.

Owns: connecting again when the cable comes back, the quiet log. Must not touch: frames, providers.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.link import HostLink
from upyclaw_host.relay import ProviderError, Relay, Served, make_provider, serve_link

RECONNECT_SECONDS = 1.0
HELLO_SECONDS = 10.0


@click.command()
@click.option("--port", required=True, metavar="P", help="Serial port of the board.")
@click.option(
    "--provider",
    metavar="X",
    help="openai, anthropic, local or script:FILE; default from the settings, else local.",
)
@click.option("--model", metavar="M", help="Model name, or a GGUF file for the local provider.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append every request the provider receives to FILE (JSON lines).",
)
def command(port: str, provider: str | None, model: str | None, record: Path | None) -> None:
    """Serve model requests to a board over its serial port, until Ctrl-C."""
    console = Console(stderr=True, highlight=False)
    config = load_config()
    for hint in config.hints:
        console.print(escape(hint), style="yellow")
    made = make_provider(provider, config, model=model, record=record)

    def waiting(seconds: float, error: ProviderError) -> None:
        console.print(f"  waiting {seconds:g} s: {escape(error.message)}", style="yellow")

    relay = Relay(made, on_wait=waiting)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(port, relay, console))
    console.print("Stopped.")


async def _serve(port: str, relay: Relay, console: Console) -> None:
    """Serve the port; once it has worked, a lost cable is waited for instead of giving up."""
    info = relay.info()
    console.print(f"Model {escape(str(info['model']))} ({info['provider']}), Ctrl-C ends.")
    known = False
    told = False
    try:
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
    finally:
        await relay.close()


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
