"""`upyclaw memory`: list, look into, search, check and edit the long-term memory of a board.

Owns: arguments and output. Reading is done by `formats.memory` (the witness); recall, forget and
the gates are the device's own code (`memory_work`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from upyclaw_host import memory_work
from upyclaw_host.cli import memory_view, options
from upyclaw_host.cli.session_view import print_findings
from upyclaw_host.cli.source_args import source_arguments, split_source
from upyclaw_host.errors import UserError
from upyclaw_host.formats.findings import Finding, has_faults
from upyclaw_host.formats.memory import Memory, load_memory
from upyclaw_host.plain import plain
from upyclaw_host.source import DirectorySource, Source, open_source, pulled


def _nothing_more(rest: Sequence[str], wanted: str) -> None:
    if rest:
        raise UserError(f'"{rest[0]}" is too much: the arguments are {wanted}.')


@contextmanager
def _opened(
    source: str | None, port: str | None, fresh: bool = False
) -> Iterator[tuple[Source, Memory]]:
    """The source and its memory, an empty one if a board remembers nothing yet; with `fresh` also
    if it is a directory where one shall begin."""
    files = open_source(source, port=port)
    try:
        memory = load_memory(files)
        board = memory is None and (files.live or pulled(files))
        if board or (memory is None and fresh):
            memory = Memory("data/memory" if board else "")
        if memory is None:
            raise UserError(
                f"No memory in {files.label}: no file memory_records.jsonl in it, in memory/ or "
                "in data/memory/."
            )
        yield files, memory
    finally:
        files.close()


def _print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(text.encode("utf-8", "replace").decode())


def _now() -> int:
    return int(time.time())


def _findings(files: Source, memory: Memory) -> list[Finding]:
    mine = f"{memory.folder}/" if memory.folder else ""
    return [f for f in files.findings if f.file.startswith(mine)] + memory.findings


@click.group()
def command() -> None:
    """Look into and edit long-term memory.

    SOURCE is a directory with files pulled from a board, a LittleFS image, or --port PORT for a
    live board.
    """


@command.command()
@source_arguments("SOURCE")
@click.option("--source", "origin", help="Only memories of this source (user, manual, auto_llm).")
@click.option("--label", help="Only memories that carry this label.")
@options.json_document
def ls(
    places: tuple[str, ...], port: str | None, origin: str | None, label: str | None, as_json: bool
) -> None:
    """List the memories of SOURCE, the most used first."""
    source, rest = split_source(places, port)
    _nothing_more(rest, "SOURCE alone")
    with _opened(source, port) as (files, memory):
        now = _now()
        items = [
            item
            for item in memory.by_heat(now)
            if (origin is None or item.source == origin)
            and (label is None or label in item.labels)
        ]
        if as_json:
            told = memory_view.listing(memory, files.label, items, now)
            told["findings"] = [f.as_dict() for f in _findings(files, memory)]
            _print_json(told)
        else:
            memory_view.print_list(memory, files.label, items)
            print_findings(f for f in _findings(files, memory) if f.is_fault)


@command.command()
@source_arguments("SOURCE ID")
@options.json_document
def show(places: tuple[str, ...], port: str | None, as_json: bool) -> None:
    """Show a memory: its text, where it comes from, what happened to it, and why it went."""
    source, rest = split_source(places, port)
    if not rest:
        raise UserError("Say which memory: its ID; upyclaw memory ls shows them.")
    _nothing_more(rest[1:], "SOURCE and one ID")
    with _opened(source, port) as (files, memory):
        told = memory_view.showing(memory, rest[0], _now())
        if told["item"] is None and not told["history"]:
            raise UserError(
                f"Nothing is known about {rest[0]} in {files.label}; upyclaw memory ls shows the "
                "ids."
            )
        if as_json:
            _print_json(told)
        else:
            memory_view.print_item(told)


@command.command()
@source_arguments("SOURCE [WORDS]...")
@click.option("--label", "labels", multiple=True, help="Recall by this label, not by words.")
@click.option(
    "--limit", type=click.IntRange(1, 128), default=8, show_default=True, help="How many at most."
)
@options.json_document
def recall(
    places: tuple[str, ...], port: str | None, labels: tuple[str, ...], limit: int, as_json: bool
) -> None:
    """What the board would recall for WORDS (or a label), best first. Counts no access."""
    source, words = split_source(places, port)
    if labels and words:
        raise UserError("A board recalls by words or by labels, not by both: leave out one.")
    if not labels and not words:
        raise UserError("Say what to recall: some words, or --label LABEL.")
    with _opened(source, port) as (files, memory):
        items = memory_work.recall(memory, files.label, " ".join(words), labels, limit)
        if as_json:
            _print_json({"source": files.label, "items": items})
        else:
            memory_view.print_recalled(items)


@command.command()
@source_arguments("SOURCE")
@options.json_document
def verify(places: tuple[str, ...], port: str | None, as_json: bool) -> None:
    """Check the memory of SOURCE; exit code 1 if anything is wrong."""
    source, rest = split_source(places, port)
    _nothing_more(rest, "SOURCE alone")
    with _opened(source, port) as (files, memory):
        found = _findings(files, memory)
        faults = has_faults(found)
        if as_json:
            told = {"source": files.label, "ok": not faults, "items": len(memory.items)}
            _print_json({**told, "findings": [f.as_dict() for f in found]})
        else:
            memory_view.print_check(files.label, memory, found)
    if faults:
        sys.exit(1)


# -- changes


@command.command()
@source_arguments("SOURCE [ID]...")
@click.option("--source", "origin", help="Forget all memories of this source (see ls).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.json_document
def forget(
    places: tuple[str, ...], port: str | None, origin: str | None, yes: bool, as_json: bool
) -> None:
    """Forget memories for good: gone from the records, the index and MEMORY.md.

    In a directory in place; in an image only with --yes, and while no board runs on it; a live
    board forgets by its own command.
    """
    source, ids = split_source(places, port)
    if bool(ids) == (origin is not None):
        raise UserError("Say what to forget: one or more IDs, or --source NAME (not both).")
    if port is not None and ids:
        _confirm(yes, as_json, f"Forget {', '.join(ids)} on the board at {port}?")
        told = _forget_on_board(port, ids)
    else:
        with _opened(source, port) as (files, memory):
            chosen = _chosen(files, memory, ids, origin)
            if not yes and port is None and not isinstance(files, DirectorySource):
                raise UserError(f"{files.label} is an image: say --yes to change it.")
            _ask(memory, chosen, files.label, yes, as_json)
            if port is None:
                told = _forget_in(files, memory, chosen)
        if port is not None:
            # The port is free again only now.
            told = _forget_on_board(port, chosen)
    if as_json:
        _print_json(told)
    else:
        for notice in told["notices"]:
            click.echo(f"The board says: {notice}", err=True)
        click.echo(f"{told['source']}: {len(told['forgotten'])} forgotten.")
        for one in told["failed"]:
            click.echo(f"{one['id']}: {one['why']}", err=True)
    if told["failed"]:
        sys.exit(1)


def _chosen(files: Source, memory: Memory, ids: Sequence[str], origin: str | None) -> list[str]:
    """The ids to forget. Raises UserError if there is nothing by that name."""
    if origin is not None:
        chosen = [item.id for item in memory.items if item.source == origin]
        if not chosen:
            there = ", ".join(sorted({item.source for item in memory.items})) or "none"
            raise UserError(f'No memory of source "{origin}" in {files.label}; there is: {there}.')
        return chosen
    for one in ids:
        if memory.get(one) is None:
            raise UserError(f"No memory {one} in {files.label}; upyclaw memory ls shows the ids.")
    return list(dict.fromkeys(ids))


def _confirm(yes: bool, as_json: bool, question: str) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UserError("Nobody is there to confirm: say --yes to forget.")
    click.confirm(question, abort=True, err=True)


def _ask(memory: Memory, chosen: Sequence[str], label: str, yes: bool, as_json: bool) -> None:
    if yes:
        return
    for one in chosen:
        item = memory.get(one)
        text = item.content if item is not None else ""
        click.echo(plain(f"{one}  {text}"), err=True)
    _confirm(yes, as_json, f"Forget {len(chosen)} for good in {label}?")


def _forget_in(files: Source, memory: Memory, chosen: Sequence[str]) -> dict[str, Any]:
    with memory_work.in_place(files, memory) as folder:
        gone, notices = memory_work.forget(folder, files.label, chosen)
    failed = [{"id": one, "why": "it was not there"} for one in chosen if one not in gone]
    return {"source": files.label, "forgotten": gone, "failed": failed, "notices": notices}


def _forget_on_board(port: str, ids: Sequence[str]) -> dict[str, Any]:
    """Say `/memory forget ID` to the board, one after the other."""
    import asyncio

    from upyclaw_host.chat import ChatClient

    async def talk() -> dict[str, Any]:
        client = await ChatClient.connect(port)
        gone: list[str] = []
        failed: list[dict[str, str]] = []
        try:
            for one in ids:
                done = await client.turn(f"/memory forget {one}")
                if done.ok:
                    gone.append(one)
                else:
                    why = done.error or done.text or "the board did not say why"
                    failed.append({"id": one, "why": why})
        finally:
            await client.close()
        return {"source": port, "forgotten": gone, "failed": failed, "notices": []}

    return asyncio.run(talk())


@command.command()
@source_arguments("SOURCE")
@click.option("--user-text", required=True, help="What the user said in that turn.")
@click.option(
    "--reply",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    help="File with the model's reply; - for standard input.",
)
@click.option("--in-place", is_flag=True, help="Change SOURCE (a directory or an image) too.")
@options.json_document
def apply(
    places: tuple[str, ...],
    port: str | None,
    user_text: str,
    reply: Path,
    in_place: bool,
    as_json: bool,
) -> None:
    """Run one extraction reply through all gates, on a copy, and say what became of each part."""
    source, rest = split_source(places, port)
    _nothing_more(rest, "SOURCE alone")
    text = _reply_text(reply)
    with _opened(source, port, fresh=True) as (files, memory):
        change = memory_work.in_place(files, memory) if in_place else memory_work.copied(memory)
        with change as folder:
            done = memory_work.apply(folder, files.label, user_text, text)
        if as_json:
            _print_json({"source": files.label, "in_place": in_place, **asdict(done)})
        else:
            memory_view.print_applied(done)
    if not done.readable:
        sys.exit(1)


def _reply_text(path: Path) -> str:
    """The reply: the model's text, or a chat-completions body that holds it."""
    from upyclaw_host.formats.jsontext import clean_text

    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    text = clean_text(raw)
    try:
        message = json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        return text
    return message if isinstance(message, str) else text
