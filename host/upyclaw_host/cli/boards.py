"""`upyclaw boards`: the boards there are, and the limits that follow from what they have."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from upyclaw_host.boards import BoardSpec, board_names, load_board
from upyclaw_host.cli import options


@click.command("boards")
@click.argument("name", required=False)
@options.json_document
def command(name: str | None, as_json: bool) -> None:
    """List the boards, or show NAME with its limits."""
    specs = [load_board(each) for each in ([name] if name else board_names())]
    if as_json:
        facts = [spec.as_json() for spec in specs]
        click.echo(json.dumps(facts[0] if name else facts, indent=2))
    elif name:
        _show(specs[0])
    else:
        _list(specs)


def _list(specs: list[BoardSpec]) -> None:
    table = Table(
        "board", "chip", "flash", "PSRAM", "files", "session limit", "page", "USB", box=None
    )
    for spec in specs:
        table.add_row(
            spec.name,
            spec.chip.title,
            _sizes(spec),
            f"{spec.psram >> 20} MB" if spec.psram else "-",
            f"{spec.vfs_size >> 10:,} KB",
            f"{spec.session_limit >> 10} KB x {spec.full_sessions}",
            "yes" if spec.page_fits else "no",
            spec.usb,
        )
    Console().print(table)


def _sizes(spec: BoardSpec) -> str:
    return "/".join(str(size >> 20) for size in spec.flash_sizes) + " MB"


def _show(spec: BoardSpec) -> None:
    pins = ", ".join(map(str, spec.pins)) or "none"
    led = f"{spec.led} ({spec.led_kind})" if spec.led >= 0 else "none"
    lines = [
        ("board", f"{spec.name}: {spec.title}"),
        ("chip", f"{spec.chip.title}, image at {spec.chip.offset:#x}, mpy-cross {spec.chip.arch}"),
        ("flash", f"{_sizes(spec)}; files from {spec.vfs_offset:#x}, {spec.vfs_size:,} bytes"),
        ("heap", _heap(spec)),
        ("USB", f"{spec.usb}, {spec.baud} baud" + _resets(spec)),
        ("pins", pins + _inputs(spec)),
        ("LED", led),
        ("MicroPython", spec.image_url if spec.image else "comes with upyclaw"),
        ("memory", f"{spec.memory_space:,} bytes beside the firmware and room to update it"),
        ("session", f"at most {spec.session_limit:,} bytes (it must fit twice)"),
        ("page", _page(spec)),
        ("sessions", f"{spec.full_sessions} of that size, more if they are shorter"),
    ]
    for label, text in lines:
        click.echo(f"{label:<12} {text}")


def _heap(spec: BoardSpec) -> str:
    psram = f", PSRAM {spec.psram >> 20} MB" if spec.psram else ""
    return spec.heap + psram + ("" if spec.simulated else " (planned, not measured on a chip)")


def _page(spec: BoardSpec) -> str:
    if spec.page_fits:
        return "served on Wi-Fi (docs/web.md)"
    return "off: its heap holds the serial chat or the page, not both (docs/hardware.md)"


def _resets(spec: BoardSpec) -> str:
    return ", some computers reset it when they open the port" if spec.resets_on_open else ""


def _inputs(spec: BoardSpec) -> str:
    return f"; input only {', '.join(map(str, spec.input_pins))}" if spec.input_pins else ""
