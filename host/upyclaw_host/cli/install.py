"""`upyclaw install`: MicroPython, the firmware and its settings on a board, step by step."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from upyclaw_host import roots
from upyclaw_host.boards import BoardSpec, load_board
from upyclaw_host.cli import options
from upyclaw_host.cli.progress import byte_bar, set_total
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import firmware_files
from upyclaw_host.install import firmware, micropython, settings, update
from upyclaw_host.install.backup import backup, is_data
from upyclaw_host.install.esptool import EspTool
from upyclaw_host.install.findport import board_ports, describe, find_port
from upyclaw_host.install.partitions import MicroPythonImage, read_image
from upyclaw_host.link import HostLink
from upyclaw_host.repl import NoPrompt, Repl

_PORT_BACK_S = 6.0
_FIRST_START_S = 40.0  # MicroPython formats its flash at the first start


@dataclass
class Job:
    """What was asked for, and what has been done so far (`report`)."""

    board: BoardSpec
    port: str
    image: MicroPythonImage | None
    erase_memory: bool
    given: settings.Settings
    ca: bytes | None
    check: bool
    backup_to: Path | None
    ask: bool
    console: Console
    report: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """A line about what happens, on stderr."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


@click.command("install")
@click.option("--board", "name", required=True, help="Which board it is; see `upyclaw boards`.")
@click.option("--port", help="Its serial port; looked for if there is only one.")
@click.option(
    "--firmware",
    "image",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="BIN",
    help="A MicroPython image to write first; without it the MicroPython there is kept.",
)
@click.option("--erase-memory", is_flag=True, help="Delete all sessions and memory on the board.")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with settings.")
@click.option("--name", "called", help="What the board is called.")
@options.board_settings
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="CA of the model server, DER or PEM; without it the server's usual root is taken.",
)
@click.option("--check", is_flag=True, help="Have the board hash its files, trust no list.")
@click.option(
    "--backup",
    "backup_to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where a backup goes before MicroPython is written.",
)
@click.option("--no-backup", is_flag=True, help="Make none.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing, take the defaults.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def command(
    name: str,
    port: str | None,
    image: Path | None,
    erase_memory: bool,
    config: Path | None,
    called: str | None,
    sets: tuple[str, ...],
    ca: Path | None,
    check: bool,
    backup_to: Path | None,
    no_backup: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Put upyclaw on a board, or bring it up to date. Sessions and memory stay.

    The cable may be pulled at any time: the board starts with the old version or the new one.
    """
    spec = load_board(name)
    layers = [settings.from_toml(config)] if config else []
    layers += [settings.from_flag(text, options.ask_secret) for text in sets]
    layers += [{"name": called}] if called else []
    given = settings.merge(*layers)
    settings.encode(settings.merge(settings.template(spec), given))
    if spec.simulated and (image or erase_memory):
        raise UserError(
            "The simulated board has MicroPython built in, and its memory is a file: leave out "
            "--firmware and --erase-memory."
        )
    interactive = _at_terminal() and not yes and not as_json
    job = Job(
        board=spec,
        port=port or (_choose() if interactive else find_port()),
        image=read_image(image, spec) if image else None,
        erase_memory=erase_memory,
        given=given,
        ca=roots.read_ca(ca.read_bytes(), str(ca)) if ca else None,
        check=check,
        backup_to=None if no_backup else (backup_to or _backup_folder(spec)),
        ask=interactive and not given,
        console=Console(stderr=True),
    )
    _run(job)
    if as_json:
        click.echo(json.dumps(job.report))
    else:
        click.echo(
            f"upyclaw {job.report['firmware']} runs on {job.report['board']} at {job.port}. "
            f"Talk to it: upyclaw chat --port {job.port}"
        )
        if erase_memory and "backup" in job.report:
            click.echo(
                "Its memory is empty now; to put back what it was: "
                f"upyclaw restore --port {job.port} {job.report['backup']}"
            )


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _backup_folder(spec: BoardSpec) -> Path:
    return Path(f"upyclaw-backup-{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}")


def _choose() -> str:
    found = board_ports()
    if len(found) < 2:
        return find_port()
    for number, info in enumerate(found, 1):
        click.echo(f"{number}  {describe(info)}", err=True)
    number = click.prompt("Which one", type=click.IntRange(1, len(found)), default=1, err=True)
    return str(found[number - 1].device)


def _run(job: Job) -> None:
    with job.console.status("Compiling the firmware ..."):
        wanted = firmware_files(board=job.board)
    if job.image or job.erase_memory:
        _save_first(job)
        _flash(job)
    repl = _reach(job)
    try:
        job.report["micropython"] = micropython.check_version(repl.facts(), job.board, job.port)
        if update.finish_pending(repl):
            job.say("An earlier installation was finished first.")
        _put(job, repl, wanted)
    finally:
        # Also after an error: the version that is there, old or new, runs again.
        repl.restart()
    _hello(job)


# -- MicroPython -------------------------------------------------------------------------------


def _save_first(job: Job) -> None:
    """A backup before anything is written to the flash, where the board answers (B62)."""
    if job.backup_to is None:
        return
    try:
        repl = Repl(job.port)
    except NoPrompt:
        job.say("No backup: no MicroPython answers on the board.")
        return
    try:
        if any(is_data(path) for path in repl.files()):
            with byte_bar("backup") as (advance, bar):
                saved = backup(repl, job.backup_to, lambda size: set_total(bar, size), advance)
            if saved.short:
                raise UserError(
                    f"{saved.short[0]} on the board could not be copied whole, so nothing was "
                    "flashed: try again, or go on without a backup with --no-backup."
                )
            job.report["backup"] = str(job.backup_to)
            job.say(f"Backup of {len(saved.files)} files in {job.backup_to}.")
    finally:
        repl.close()


def _flash(job: Job) -> None:
    tool = EspTool(job.port, job.board.flash_baud)
    try:
        with job.console.status("Looking at the chip ..."):
            layout = micropython.look(tool, job.board)
        if job.image is None:
            if layout.files is not None:
                tool.erase(layout.files.offset, layout.files.size)
            tool.restart()
            return
        if not job.erase_memory:
            micropython.check_memory(layout, job.image)
    except UserError:
        _leave(tool)
        raise
    image, total = job.image, len(job.image.data)
    with byte_bar(f"MicroPython {image.version_text}", total) as (_, bar):
        micropython.write(
            tool,
            image,
            layout,
            erase_memory=job.erase_memory,
            share=lambda part: bar.update(bar.task_ids[0], completed=part * total),
        )
    job.report["flashed"] = image.version_text


def _leave(tool: EspTool) -> None:
    """Out of the boot loader: what was on the chip before runs again."""
    with contextlib.suppress(UserError):
        tool.restart()


def _reach(job: Job) -> Repl:
    """MicroPython's prompt; after flashing it may take a while."""
    end = time.monotonic() + (_FIRST_START_S if job.image or job.erase_memory else 0)
    with job.console.status("Looking for MicroPython ..."):
        while True:
            try:
                return Repl(job.port)
            except UserError as error:
                if time.monotonic() < end:
                    time.sleep(1.0)
                    continue
                if isinstance(error, NoPrompt) and not job.board.simulated and job.image is None:
                    raise _explain(job, error) from None
                raise


def _explain(job: Job, error: NoPrompt) -> UserError:
    """No MicroPython answers: is there a chip at all, and is it the right one?"""
    tool = EspTool(job.port, job.board.flash_baud)
    try:
        micropython.look(tool, job.board)
    except UserError as other:
        return other if "name the right --board" in other.message else error
    finally:
        _leave(tool)
    return micropython.need_image(job.board, f"No MicroPython answers on the board at {job.port}")


# -- firmware and settings ---------------------------------------------------------------------


def _put(job: Job, repl: Repl, wanted: dict[str, bytes]) -> None:
    with job.console.status("Comparing with what is on the board ..."):
        found = firmware.changes(repl, wanted, check=job.check)
        old = repl.text(settings.CONFIG)
    there = settings.on_board(old)
    answers = _questions(job) if job.ask and there is None else {}
    base = settings.template(job.board) if there is None else there
    settings.encode(settings.merge(settings.template(job.board), answers))
    content = settings.encode(settings.merge(base, answers, job.given), strict=False)
    if there is None and old is not None:
        found.files[settings.CONFIG + ".old"] = old
        job.say(f"{settings.CONFIG} on the board was broken; it is kept as {settings.CONFIG}.old.")
    if there is None or settings.on_board(content) != there:
        found.files[settings.CONFIG] = content
    found.files.update(_roots(job, repl, settings.on_board(content) or {}, there or {}))
    for path, saved in found.kept.items():
        job.say(f"{path} was not ours; it is kept as {saved}.")
    job.report["sent"] = sorted(found.files)
    job.report["removed"] = sorted(found.gone)
    if found.files or found.gone:
        with byte_bar("upyclaw", found.size) as (advance, _):
            firmware.apply(repl, found, wanted, advance)
    else:
        job.say("The board has this version already.")


def _roots(
    job: Job, repl: Repl, after: settings.Settings, before: settings.Settings
) -> dict[str, bytes]:
    """The root certificates to put on the board, if it needs other ones."""
    path = roots.ca_path(after)
    held = repl.text(path)
    if job.ca is not None:
        return {} if held == job.ca else {path: job.ca}
    return roots.for_settings(after, before, held)


def _questions(job: Job) -> settings.Settings:
    """What a person with a fresh board is asked; everything has a default."""
    answers: settings.Settings = {
        "name": click.prompt("What is the board called", default="upyclaw", err=True)
    }
    url = click.prompt(
        "Address of a model server it reaches over Wi-Fi (empty: through this PC)",
        default="",
        show_default=False,
        err=True,
    )
    if url.strip():
        model: dict[str, Any] = {"base_url": url.strip()}
        model["name"] = click.prompt("Name of the model there", default="", err=True)
        model["api_key"] = click.prompt(
            "Key for it (not shown)", default="", hide_input=True, show_default=False, err=True
        )
        answers["model"] = model
        job.say(f"Give it a network afterwards: upyclaw wifi add --port {job.port}")
    return answers


# -- hello -------------------------------------------------------------------------------------


async def _open_link(job: Job) -> HostLink:
    """The port again; USB of the chip's own goes away for a moment when the chip restarts."""
    end = time.monotonic() + _PORT_BACK_S
    while True:
        try:
            return await HostLink.open(job.port, baud=job.board.baud)
        except UserError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.3)


def _hello(job: Job) -> None:
    async def greet() -> dict[str, Any]:
        link = await _open_link(job)
        try:
            return await link.hello(timeout=15.0)
        finally:
            await link.close()

    with job.console.status("Starting upyclaw ..."):
        hello = asyncio.run(greet())
    job.report.update(
        port=job.port,
        board=hello.get("board"),
        name=hello.get("name"),
        firmware=hello.get("firmware"),
        heap_free=hello.get("heap_free"),
        flash_free=hello.get("flash_free"),
    )
    with contextlib.suppress(TypeError):
        for notice in hello.get("notices") or []:
            job.say(str(notice))
