"""The wear of a simulated flash: the counter file that lies beside its image.

Owns the file's format (see boards/sim/simflash.py, which writes it) and its picture.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from upyclaw_host.errors import UserError

_MAGIC = b"UPYWEAR1"
_HEAD = struct.Struct("<8sQ")
_BLOCK = struct.Struct("<II")


@dataclass(frozen=True)
class Wear:
    """Reads in all, and for each block how often it was programmed and erased."""

    reads: int
    programs: tuple[int, ...]
    erases: tuple[int, ...]

    @property
    def total_programs(self) -> int:
        return sum(self.programs)

    @property
    def total_erases(self) -> int:
        return sum(self.erases)

    def since(self, earlier: Wear) -> Wear:
        """What happened after `earlier` was read."""
        return Wear(
            self.reads - earlier.reads,
            tuple(a - b for a, b in zip(self.programs, earlier.programs, strict=True)),
            tuple(a - b for a, b in zip(self.erases, earlier.erases, strict=True)),
        )


def wear_path(image: Path) -> Path:
    """Where the counters of `image` lie."""
    return image.with_name(image.name + ".wear")


def ensure_wear(image: Path, blocks: int) -> Path:
    """Make the counter file with zeros if there is none of the right size; returns its path."""
    path = wear_path(image)
    size = _HEAD.size + blocks * _BLOCK.size
    if not path.exists() or path.stat().st_size != size:
        path.write_bytes(_HEAD.pack(_MAGIC, 0) + bytes(blocks * _BLOCK.size))
    return path


def read_wear(image: Path) -> Wear | None:
    """The counters of `image`, None if no simulated board ever ran on it."""
    path = wear_path(image)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if data[:8] != _MAGIC or (len(data) - _HEAD.size) % _BLOCK.size:
        raise UserError(f"{path} is not a wear file; delete it to count from zero.")
    counts = list(_BLOCK.iter_unpack(data[_HEAD.size :]))
    return Wear(
        _HEAD.unpack_from(data)[1], tuple(p for p, _ in counts), tuple(e for _, e in counts)
    )


def wear_svg(wear: Wear, title: str) -> str:
    """A picture of the erases per block: one square a block, darker is more."""
    columns, cell, top = 32, 18, 44
    rows = -(-len(wear.erases) // columns)
    most = max(wear.erases, default=0)
    width, height = columns * cell + 20, top + rows * cell + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="18" font-weight="bold">{_escape(title)}</text>',
        f'<text x="10" y="36">{wear.total_erases} erases, at most {most} in one block, '
        f"{sum(1 for e in wear.erases if e)} of {len(wear.erases)} blocks used</text>",
    ]
    for block, erases in enumerate(wear.erases):
        x, y = 10 + block % columns * cell, top + block // columns * cell
        share = erases / most if most else 0.0
        red, green, blue = (round(238 - depth * share) for depth in (60, 190, 200))
        parts.append(
            f'<rect x="{x}" y="{y}" width="{cell - 2}" height="{cell - 2}" '
            f'fill="rgb({red},{green},{blue})">'
            f"<title>block {block}: {erases} erases, "
            f"{wear.programs[block]} programs</title></rect>"
        )
    parts.append(
        f'<text x="10" y="{height - 12}">{columns} blocks a row, from block 0; '
        "grey: never erased, dark red: most often</text></svg>"
    )
    return "\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
