"""Bytes of compiled code: what lies on the board, and each module compiled by itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from upyclaw_host.bench import Progress
from upyclaw_host.flash.firmware import firmware_files
from upyclaw_host.flash.mpy import compile_package
from upyclaw_host.resources import device_package


def run(progress: Progress) -> dict[str, Any]:
    """Sizes in bytes: `board` by file, `modules` by source file, `parts` by folder."""
    progress("the files of the board")
    board = {path: len(data) for path, data in firmware_files().items()}
    progress("the modules one by one")
    with tempfile.TemporaryDirectory(prefix="upyclaw-size-") as folder:
        modules = compile_package(device_package(), Path(folder))
    parts: dict[str, int] = {}
    for name, size in modules.items():
        part = name.partition("/")[0] if "/" in name else "(top)"
        parts[part] = parts.get(part, 0) + size
    return {
        "board": board,
        "board_total": sum(board.values()),
        "modules": modules,
        "modules_total": sum(modules.values()),
        "parts": parts,
    }


def render(result: dict[str, Any]) -> str:
    """The modules by size, then the sums."""
    lines = [
        f"{size:8,}  {name}"
        for name, size in sorted(result["modules"].items(), key=lambda item: -item[1])
    ]
    lines.append(f"{result['modules_total']:8,}  all modules, compiled one by one, of which")
    lines += [f"{size:8,}    {name}" for name, size in sorted(result["parts"].items())]
    lines.append(
        f"{result['board_total']:8,}  on the board in {len(result['board'])} files "
        "(what is always loaded is one file; the page's files included)"
    )
    return "\n".join(lines)
