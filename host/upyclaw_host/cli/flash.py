"""`upyclaw flash`: make, list, read, change and measure flash images. Reading changes nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from upyclaw_host.boards import load_board
from upyclaw_host.cli import options
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import build_flash
from upyclaw_host.flash.image import BLOCK_SIZE, Entry, Image, create_image, open_image
from upyclaw_host.flash.wear import read_wear, wear_svg
from upyclaw_host.install.dump import search

_IMAGE = click.argument("image", type=click.Path(path_type=Path))


@click.group("flash")
def command() -> None:
    """Work on a LittleFS image, the flash of a (simulated) board."""


@command.command("new")
@_IMAGE
@click.option("--board", default="sim", show_default=True, help="Whose flash size to take.")
@click.option("--empty", is_flag=True, help="Without firmware on it.")
@options.json_document
def new(image: Path, board: str, empty: bool, as_json: bool) -> None:
    """Make a new image with the firmware on it; one that exists is left alone."""
    spec = load_board(board)
    if empty:
        create_image(image, spec.blocks)
    else:
        build_flash(image, blocks=spec.blocks, board=spec)
    with open_image(image) as opened:
        facts = _facts(opened)
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo(f"{image}: {facts['size']:,} bytes, {facts['free']:,} free.")


@command.command("ls")
@_IMAGE
@click.argument("path", default="/")
@click.option("-r", "--recursive", is_flag=True, help="With everything below.")
@options.json_document
def ls(image: Path, path: str, recursive: bool, as_json: bool) -> None:
    """List the folder PATH of an image."""
    with open_image(image) as opened:
        top = opened.stat(path)
        if not top.is_dir:
            entries = [top]
        elif recursive:
            entries = list(opened.walk(path))
        else:
            folder = top.path.rstrip("/")
            entries = [opened.stat(f"{folder}/{name}") for name in opened.listdir(path)]
    if as_json:
        click.echo(json.dumps([_describe(entry) for entry in entries], ensure_ascii=False))
        return
    for entry in entries:
        name = entry.path if recursive else entry.name
        click.echo(f"{entry.size:>9,}  {name}{'/' if entry.is_dir else ''}")


@command.command("get")
@_IMAGE
@click.argument("path")
@click.argument("target", type=click.Path(path_type=Path), required=False)
@options.json_document
def get(image: Path, path: str, target: Path | None, as_json: bool) -> None:
    """Copy PATH, a file or a folder, out of an image; `-` as TARGET prints a file."""
    with open_image(image) as opened:
        top = opened.stat(path)
        if str(target) == "-":
            sys.stdout.buffer.write(opened.read(path))
            return
        target = target or Path(top.name or "flash")
        if not top.is_dir and target.is_dir():
            target = target / top.name
        entries = [top, *opened.walk(path)] if top.is_dir else [top]
        for entry in entries:
            relative = entry.path[len(top.path) :].strip("/")
            _save(target / relative if relative else target, entry, opened)
    files = [entry for entry in entries if not entry.is_dir]
    if as_json:
        click.echo(json.dumps({"target": str(target), "files": len(files)}, ensure_ascii=False))
    else:
        size = sum(entry.size for entry in files)
        click.echo(f"{target}: {len(files)} files, {size:,} bytes.", err=True)


@command.command("put")
@_IMAGE
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("path", required=False)
@options.json_document
def put(image: Path, source: Path, path: str | None, as_json: bool) -> None:
    """Copy the file or folder SOURCE into an image, as PATH; the board must be off."""
    files = _load(source)
    with open_image(image, write=True) as opened:
        target = path or "/" + source.name
        if source.is_file() and opened.exists(target) and opened.stat(target).is_dir:
            target = target.rstrip("/") + "/" + source.name
        for relative, data in files.items():
            opened.write(f"{target}/{relative}" if relative else target, data)
    size = sum(map(len, files.values()))
    if as_json:
        click.echo(json.dumps({"target": target, "files": len(files), "bytes": size}))
    else:
        click.echo(f"{target} in {image}: {len(files)} files, {size:,} bytes.", err=True)


@command.command("stat")
@_IMAGE
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw the erases per block as this .svg file."
)
@options.json_document
def stat(image: Path, plot: Path | None, as_json: bool) -> None:
    """Room, files and wear of an image."""
    with open_image(image) as opened:
        facts = _facts(opened)
    wear = read_wear(image)
    if wear is not None:
        facts["wear"] = {
            "reads": wear.reads,
            "programs": wear.total_programs,
            "erases": wear.total_erases,
            "most_erases": max(wear.erases),
            "erases_by_block": list(wear.erases),
        }
    if plot is not None:
        if plot.suffix.lower() != ".svg":
            raise UserError(f"{plot}: the picture is an SVG; give it a name that ends in .svg.")
        if wear is None:
            raise UserError(f"There is no wear to draw: no simulated board ran on {image} yet.")
        _write(plot, wear_svg(wear, f"Wear of {image.name}").encode())
    if as_json:
        click.echo(json.dumps(facts))
        return
    click.echo(
        f"{image}: {facts['size']:,} bytes, {facts['used']:,} used, {facts['free']:,} free "
        f"({facts['blocks']} blocks of {BLOCK_SIZE}, {facts['blocks_used']} used), "
        f"{facts['files']} files."
    )
    if wear is None:
        click.echo("Wear: no simulated board ran on this image yet.")
    else:
        click.echo(
            f"Wear: {wear.total_erases:,} erases (at most {max(wear.erases):,} of one block), "
            f"{wear.total_programs:,} programs, {wear.reads:,} reads."
        )


@command.command("from-dump")
@click.argument("dump", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="IMG",
    help="The image to write; default DUMP with .littlefs.img behind its name.",
)
@options.json_document
def from_dump(dump: Path, out: Path | None, as_json: bool) -> None:
    """Find the LittleFS in DUMP, a raw copy of a chip's flash, and save it as an image.

    DUMP is only read. The image is a SOURCE for the session and memory commands.
    """
    try:
        data = dump.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read {dump}: {_why(error)}.") from None
    found = search(data)
    if not found.file_systems:
        listed = ", ".join(f"{part.name} at {part.offset:#x}" for part in found.table)
        table = f"its partitions are {listed}" if listed else "nor a partition table"
        raise UserError(f"{dump} holds no LittleFS file system, {table}; nothing was written.")
    first = found.file_systems[0]
    out = out or dump.with_name(dump.name + ".littlefs.img")
    if out.exists():
        raise UserError(f"{out} exists already; it was left as it is.")
    _write(out, data[first.offset : first.offset + first.size])
    if as_json:
        facts = {
            "image": str(out),
            "offset": first.offset,
            "size": first.size,
            "missing": first.missing,
            "partition": first.name,
            "file_systems": len(found.file_systems),
        }
        click.echo(json.dumps(facts))
        return
    name = f" (partition {first.name})" if first.name else ""
    click.echo(f"{out}: LittleFS of {first.size:,} bytes from {first.offset:#x}{name}.")
    for other in found.file_systems[1:]:
        click.echo(f"There is another one of {other.size:,} bytes at {other.offset:#x}.")
    if first.missing:
        click.echo(f"The dump is short: {first.missing:,} bytes are missing; read it again.")


def _facts(image: Image) -> dict[str, Any]:
    used = image.used_blocks
    return {
        "image": str(image.path),
        "size": image.block_count * BLOCK_SIZE,
        "used": used * BLOCK_SIZE,
        "free": (image.block_count - used) * BLOCK_SIZE,
        "blocks": image.block_count,
        "blocks_used": used,
        "files": sum(1 for entry in image.walk() if not entry.is_dir),
    }


def _describe(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "dir": entry.is_dir, "size": entry.size}


def _save(target: Path, entry: Entry, image: Image) -> None:
    if entry.is_dir:
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"Cannot make the folder {target}: {_why(error)}.") from None
    else:
        _write(target, image.read(entry.path))


def _write(target: Path, data: bytes) -> None:
    try:
        # 0600: what comes from a board may be keys, passwords or a talk (B30).
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {_why(error)}.") from None


def _load(source: Path) -> dict[str, bytes]:
    """Relative path -> content of a file (path "") or of everything below a folder."""
    try:
        if source.is_dir():
            found = sorted(path for path in source.rglob("*") if path.is_file())
            return {path.relative_to(source).as_posix(): path.read_bytes() for path in found}
        return {"": source.read_bytes()}
    except OSError as error:
        raise UserError(f"Cannot read {source}: {_why(error)}.") from None


def _why(error: OSError) -> str:
    return error.strerror or os.strerror(error.errno or 0)
