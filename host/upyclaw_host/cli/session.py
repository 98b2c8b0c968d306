"""`upyclaw session`: list, read, check, export, mend and compact the sessions of a board.

Owns: arguments and output. Reading is done by `formats` (the witness), mending by `mend` (the
device's own code on a copy).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from upyclaw_host import mend
from upyclaw_host.cli import options, session_view
from upyclaw_host.cli.source_args import source_arguments, split_session
from upyclaw_host.errors import UserError
from upyclaw_host.formats import export as exports
from upyclaw_host.formats.catalog import Catalog, Session, load_catalog
from upyclaw_host.formats.findings import has_faults
from upyclaw_host.plain import plain
from upyclaw_host.source import Source, open_source, pulled


@contextmanager
def _opened(source: str | None, port: str | None) -> Iterator[tuple[Source, Catalog]]:
    files = open_source(source, port=port)
    try:
        catalog = load_catalog(files)
        known = catalog.sessions or catalog.maps or catalog.findings
        if not (known or files.live or pulled(files)):
            raise UserError(
                f"No sessions in {files.label}: no file s_*.log in it, in sessions/ or in "
                "data/sessions/."
            )
        yield files, catalog
    finally:
        files.close()


def _print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    # A file name that is no UTF-8 must not end the command.
    click.echo(text.encode("utf-8", "replace").decode())


@click.group()
def command() -> None:
    """Read, check, export and mend session files.

    SOURCE is a directory with files pulled from a board, a LittleFS image, or --port PORT for a
    live board. ID is a session's id, its alias or its file name; with one session it may be left
    out.
    """


@command.command()
@source_arguments("SOURCE")
@options.json_document
def ls(places: tuple[str, ...], port: str | None, as_json: bool) -> None:
    """List the sessions of SOURCE."""
    source, extra = split_session(places, port)
    if extra is not None:
        raise UserError(f'ls takes no ID; to read one session: upyclaw session show … "{extra}".')
    with _opened(source, port) as (files, catalog):
        told = [session_view.summary(session) for session in catalog.sessions]
        if as_json:
            found = [finding.as_dict() for finding in (*files.findings, *catalog.findings)]
            _print_json({"source": catalog.label, "sessions": told, "findings": found})
        else:
            session_view.print_list(catalog, told)
            session_view.print_findings([*files.findings, *catalog.findings])


@command.command()
@source_arguments("SOURCE [ID]")
@click.option("--raw", is_flag=True, help="Print the records as they lie in the file.")
@click.option("--full", is_flag=True, help="Unfold tool calls and cut nothing.")
@options.json_document
def show(places: tuple[str, ...], port: str | None, raw: bool, full: bool, as_json: bool) -> None:
    """Show the conversation of a session."""
    source, wanted = split_session(places, port)
    with _opened(source, port) as (_, catalog):
        session = catalog.find(wanted)
        if as_json:
            _print_json(session_view.conversation(session))
        elif raw:
            session_view.print_raw(session)
        else:
            session_view.print_conversation(session, full)


@command.command()
@source_arguments("SOURCE [ID]")
@options.json_document
def verify(places: tuple[str, ...], port: str | None, as_json: bool) -> None:
    """Check the sessions of SOURCE (or one); exit code 1 if anything is wrong."""
    source, wanted = split_session(places, port)
    with _opened(source, port) as (files, catalog):
        sessions = catalog.sessions if wanted is None else [catalog.find(wanted)]
        checked = [(session, session.all_findings()) for session in sessions]
        mine = {path for session in catalog.sessions for path in session.files.values()}
        general = [f for f in files.findings if f.file not in mine]
        if wanted is None:
            general += catalog.findings
        every = [*general, *(finding for _, found in checked for finding in found)]
        faults = has_faults(every)
        if as_json:
            _print_json(_verified(catalog, checked, [f.as_dict() for f in general], not faults))
        else:
            session_view.print_findings(general)
            session_view.print_checks(catalog, checked)
    if faults:
        sys.exit(1)


def _verified(
    catalog: Catalog,
    checked: list[tuple[Session, list[Any]]],
    general: list[dict[str, Any]],
    fine: bool,
) -> dict[str, Any]:
    sessions = []
    for session, found in checked:
        told = session_view.summary(session)
        told["findings"] = [finding.as_dict() for finding in found]
        sessions.append(told)
    return {"source": catalog.label, "ok": fine, "findings": general, "sessions": sessions}


@command.command()
@source_arguments("SOURCE [ID]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "jsonl", "openai"]),
    default="md",
    show_default=True,
    help="Markdown, one JSON line a record, or OpenAI chat messages.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file, not to stdout.")
@options.json_document
def export(
    places: tuple[str, ...], port: str | None, form: str, out: Path | None, as_json: bool
) -> None:
    """Write a session in a form that other programs read."""
    source, wanted = split_session(places, port)
    with _opened(source, port) as (_, catalog):
        session = catalog.find(wanted)
        if form == "md":
            text = exports.markdown(session.pair, session.title)
        elif form == "jsonl":
            text = "".join(line + "\n" for line in exports.jsonl(session.pair))
        else:
            messages = exports.openai(session.pair.records)
            text = json.dumps(messages, ensure_ascii=False, indent=1) + "\n"
        records = len(session.pair.records)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{out} can't be written: {error.strerror}.")
    if as_json:
        told: dict[str, Any] = {"session": session.title, "format": form, "records": records}
        _print_json({**told, "out": str(out)} if out is not None else {**told, "text": text})
    elif out is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{out}: {records} records of {session.title} as {form}.", err=True)


_out_folder = click.Path(path_type=Path, file_okay=False)


def _told(outcomes: list[mend.Outcome], maps: list[str], out: Path | None, as_json: bool) -> None:
    """Print what became of the sessions and chat maps."""
    if as_json:
        told = [outcome.as_dict() for outcome in outcomes]
        _print_json({"out": None if out is None else str(out), "sessions": told, "maps": maps})
    else:
        for outcome in outcomes:
            session_view.print_outcome(outcome)
        for line in maps:
            click.echo(plain(line))


@command.command()
@source_arguments("SOURCE [ID]")
@click.option("--out", type=_out_folder, required=True, help="New directory for the mended copy.")
@options.json_document
def repair(places: tuple[str, ...], port: str | None, out: Path, as_json: bool) -> None:
    """Mend a copy of the sessions (or one) as a board would, and say what became of each record.

    SOURCE is never changed. Nothing is wiped: damaged bytes are set aside beside the copy.
    """
    source, wanted = split_session(places, port)
    with _opened(source, port) as (_, catalog):
        sessions = catalog.sessions if wanted is None else [catalog.find(wanted)]
        outcomes = mend.repair(catalog, sessions, out)
        maps = mend.repair_maps(catalog, out) if wanted is None else []
        _told(outcomes, maps, out, as_json)


@command.command()
@source_arguments("SOURCE [ID]")
@click.option("--out", type=_out_folder, help="New directory for the compacted copy.")
@click.option(
    "--in-place", is_flag=True, help="Compact in SOURCE itself, a directory or an image."
)
@options.json_document
def compact(
    places: tuple[str, ...], port: str | None, out: Path | None, in_place: bool, as_json: bool
) -> None:
    """Drop old tool records of a session, as a board does when it is full.

    All questions and answers stay, and the tool records of the newest turn that has some.
    """
    source, wanted = split_session(places, port)
    if (out is None) != in_place:
        raise UserError("Say where to: --out DIR for a copy, or --in-place (not both).")
    with _opened(source, port) as (_, catalog):
        session = catalog.find(wanted)
        if out is not None:
            outcome = mend.compact_copy(catalog, session, out)
        else:
            outcome = mend.compact_in_place(catalog, session)
        _told([outcome], [], out, as_json)
