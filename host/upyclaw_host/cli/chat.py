"""`upyclaw chat`: talk to a real board (`--port`) or to a simulated one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from upyclaw_host.chat import ChatClient
from upyclaw_host.cli import options
from upyclaw_host.config import load_config
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Relay, make_provider

if TYPE_CHECKING:
    from upyclaw_host.chat.web import WebClient


@click.command("chat")
@click.option("--port", "-p", metavar="PORT", help="Serial port of a board (/dev/ttyUSB0, ...).")
@click.option("--url", metavar="URL", help="Link to a board's page, http://ADDRESS/#TOKEN.")
@click.option(
    "--baud",
    type=click.IntRange(min=300),
    default=115200,
    show_default=True,
    help="Speed of a UART board.",
)
@click.option("--sim", is_flag=True, help="Start a simulated board (the default without --port).")
@options.flash_image
@click.option("--board", default="sim", show_default=True, help="Board folder to simulate.")
@options.model_source
@click.option("--once", "texts", multiple=True, metavar="TEXT", help="Send TEXT, print, end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a turn (with --once).")
@click.option("--log", is_flag=True, help="Show the board's log lines on stderr.")
def command(
    port: str | None,
    url: str | None,
    baud: int,
    sim: bool,
    flash: Path,
    board: str,
    provider: str | None,
    model: str | None,
    record: Path | None,
    texts: tuple[str, ...],
    as_json: bool,
    log: bool,
) -> None:
    """Chat with a board that remembers.

    Without --port a simulated board is started; its memory lies in the flash image.
    """
    if (port is not None) + (url is not None) + sim > 1:
        raise UserError("--port, --url and --sim exclude each other; give one of them.")
    if not all(text.strip() for text in texts):
        raise UserError("--once was given an empty text; write what to say behind it.")
    if as_json and not texts:
        raise UserError("--json needs --once TEXT; it prints one object a turn.")
    errors = Console(stderr=True)

    def on_log(line: str) -> None:
        if log:
            errors.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)

    async def run_web(link: str) -> int:
        from upyclaw_host.chat.web import WebClient

        client = await WebClient.connect(link)
        try:
            return await _talk(client, "the board's own", "model", texts, as_json, errors)
        finally:
            await client.close()

    async def run() -> int:
        if url:
            return await run_web(url)
        settings = load_config()
        for hint in settings.hints:
            errors.print(hint, style="yellow", markup=False, highlight=False, soft_wrap=True)
        with errors.status("Loading the model ...") if errors.is_terminal else _quiet():
            chosen = make_provider(provider, settings, model=model, record=record)
        async with _board_port(port, flash, board, errors) as where:
            client = await ChatClient.connect(where, Relay(chosen), on_log=on_log, baud=baud)
            try:
                return await _talk(client, chosen.name, chosen.model, texts, as_json, errors)
            finally:
                await client.close()

    code = asyncio.run(run())
    if code:
        sys.exit(code)


@contextlib.asynccontextmanager
async def _board_port(
    port: str | None, flash: Path, board: str, errors: Console
) -> AsyncIterator[str]:
    """The port to talk to; starts and ends a simulated board where none was named."""
    if port:
        yield port
        return
    from upyclaw_host.sim import SimBoard

    simulated = SimBoard(flash, board=board)
    with (
        errors.status(f"Starting the simulated board ({flash}) ...")
        if (errors.is_terminal)
        else _quiet()
    ):
        where = await asyncio.to_thread(simulated.start)
    try:
        yield where
    finally:
        await asyncio.to_thread(simulated.stop)


@contextlib.contextmanager
def _quiet():  # type: ignore[no-untyped-def]
    yield


async def _talk(
    client: ChatClient | WebClient,
    provider: str,
    model: str,
    texts: tuple[str, ...],
    as_json: bool,
    errors: Console,
) -> int:
    if texts:
        return await _once(client, texts, as_json, errors)
    from upyclaw_host.chat.terminal import Terminal

    return await Terminal(client, provider, model).run()


async def _once(
    client: ChatClient | WebClient, texts: tuple[str, ...], as_json: bool, errors: Console
) -> int:
    failed = False

    def tell(notice: str) -> None:
        errors.print(notice, style="yellow", markup=False, highlight=False, soft_wrap=True)

    for notice in client.hello.get("notices") or []:
        tell(notice)
    client.on_notice = tell
    for text in texts:
        if as_json:
            result = await client.turn(text)
            print(json.dumps(result.as_json(), ensure_ascii=False), flush=True)
        else:
            result = await client.turn(
                text,
                on_text=lambda piece: print(piece, end="", flush=True),
                on_note=lambda note: errors.print(note, style="dim", markup=False, soft_wrap=True),
            )
            if result.text:
                print(flush=True)
            if result.error:
                errors.print(
                    result.error, style="red", markup=False, highlight=False, soft_wrap=True
                )
        failed = failed or not result.ok
    await client.settle()
    return 1 if failed else 0
