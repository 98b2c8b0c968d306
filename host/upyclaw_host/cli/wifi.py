"""`upyclaw wifi`: the networks a board knows, changed over its serial port while it runs.

Owns the questions and the words. A password is asked for without echo, goes to the board and
appears nowhere else (B30). Must not touch: frames, the board's files.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import click

from upyclaw_host.cli import options
from upyclaw_host.errors import UserError
from upyclaw_host.link import HostLink

_JOIN_SECONDS = 25.0  # a board gives a network 15 s
_POLL_SECONDS = 0.5

_port = click.option("--port", metavar="P", help="Serial port; default: the only board there is.")


@click.group()
def command() -> None:
    """The Wi-Fi networks of a board."""


@command.command("add")
@click.argument("ssid", required=False)
@_port
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the board has joined.")
@options.json_document
def add(
    ssid: str | None, port: str | None, password_stdin: bool, no_wait: bool, as_json: bool
) -> None:
    """Add the network SSID and try it first; the password is asked for."""
    ssid = ssid or click.prompt("Network", err=True)
    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt(
            "Password (not shown; empty for an open network)",
            default="",
            hide_input=True,
            show_default=False,
            err=True,
        )
    order = {"op": "wifi", "do": "add", "ssid": ssid, "password": password}
    _finish(asyncio.run(_order(port, order, None if no_wait else ssid)), as_json, ssid, no_wait)


@command.command("list")
@_port
@options.json_document
def show(port: str | None, as_json: bool) -> None:
    """The networks the board knows, in the order it tries them, and the one it is on."""
    answer = asyncio.run(_order(port, {"op": "wifi", "do": "list"}))
    if as_json:
        click.echo(json.dumps(_report(answer), ensure_ascii=False))
        return
    now = answer["now"]
    for name in answer["networks"]:
        click.echo(name + ("  *" if name == now.get("ssid") else ""))
    click.echo(_words(now), err=True)


@command.command("forget")
@click.argument("ssid")
@_port
@options.json_document
def forget(ssid: str, port: str | None, as_json: bool) -> None:
    """Forget the network SSID and its password."""
    answer = asyncio.run(_order(port, {"op": "wifi", "do": "forget", "ssid": ssid}))
    if as_json:
        click.echo(json.dumps(_report(answer), ensure_ascii=False))
    else:
        click.echo(f"{ssid} is forgotten.", err=True)


def _finish(answer: dict[str, Any], as_json: bool, ssid: str, no_wait: bool) -> None:
    if as_json:
        click.echo(json.dumps(_report(answer), ensure_ascii=False))
    joined = answer["now"].get("ssid") == ssid
    if no_wait and not as_json:
        click.echo(f"{ssid} is saved.", err=True)
    elif joined and not as_json:
        click.echo(_words(answer["now"]), err=True)
    elif not (joined or no_wait):
        more = f"It is saved and tried again; `upyclaw wifi forget {ssid}` takes it out."
        click.echo(f"{_words(answer['now'])} {more}", err=True)
        raise click.exceptions.Exit(1)


def _report(answer: dict[str, Any]) -> dict[str, Any]:
    return {"networks": answer["networks"], "now": answer["now"]}


def _words(now: dict[str, Any]) -> str:
    if "ssid" not in now:
        return str(now.get("problem", "The board is not on Wi-Fi."))
    return f"On {now['ssid']} as {now['ip']}, {now['rssi']} dBm; also {now['host']}."


async def _order(
    port: str | None, order: dict[str, Any], wait_for: str | None = None
) -> dict[str, Any]:
    """The board's answer to one order; with `wait_for`, its state once that network is tried."""
    if port is None:
        from upyclaw_host.install.findport import find_port

        port = find_port()
    link = await HostLink.open(port)
    try:
        await link.hello(None)
        answer = await link.ask(order)
        if answer.get("error"):
            raise UserError(f"The board refused: {answer['error']}")
        before = answer["now"]
        until = time.monotonic() + _JOIN_SECONDS
        while wait_for and time.monotonic() < until:
            await asyncio.sleep(_POLL_SECONDS)
            answer = await link.ask({"op": "wifi", "do": "list"})
            now = answer["now"]
            # A change for the worse is an answer too: wrong password, not in reach.
            failed = now != before and f"Wi-Fi {wait_for}:" in now.get("problem", "")
            if failed or now.get("ssid") == wait_for:
                break
        return answer
    finally:
        await link.close()
