"""Shared by the format tests: where the data lie, and a small writer of CHDX pairs.

The writer is the tests' own: neither the witness nor the device code is used to make the bytes
that the witness must read.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from upyclaw_host.formats.session import SessionBytes, SessionPair, read_session

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "golden"
SHARED = Path(__file__).parents[3] / "shared"
CASES = DATA / "cases"


def shared(*parts: str) -> Path:
    """A path in the shared data, or a skipped test where that is not there."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no shared data at {path.name}")
    return path


def session_folder(name: str) -> Path:
    """A golden session folder: the copy in the repository, else the shared one."""
    own = GOLDEN / "sessions" / name
    return own if own.exists() else shared("golden", "sessions", name)


def write_pair(records: list[tuple[int, int, bytes]]) -> tuple[bytes, bytes]:
    """Data and idx for `(type, format, json)` records, by the text of the format alone."""
    data = b""
    idx = struct.pack("<4sHH", b"CHDX", 1, 10)
    for rtype, fmt, raw in records:
        idx += struct.pack("<IIBB", len(data), len(raw) + 1, rtype, fmt)
        data += raw + b"\n"
    return data, idx


def damage(draw: st.DrawFn, part: bytearray) -> None:
    """Do one random harm to a file: a flipped bit, a cut, foreign bytes, zeros."""
    if not part:
        return
    at = draw(st.integers(0, len(part) - 1))
    kind = draw(st.sampled_from(["flip", "cut", "insert", "zero"]))
    if kind == "flip":
        part[at] ^= 1 << draw(st.integers(0, 7))
    elif kind == "cut":
        del part[at:]
    elif kind == "insert":
        part[at:at] = draw(st.binary(min_size=1, max_size=12))
    else:
        part[at : at + 8] = bytes(len(part[at : at + 8]))


def pair_of(
    data: bytes | None,
    idx: bytes | None,
    live: bool = False,
    **more: bytes,
) -> SessionPair:
    """Read a pair given as bytes; `more` are other roles with `_` for `.`."""
    parts = {role.replace("_", "."): content for role, content in more.items()}
    if data is not None:
        parts["data"] = data
    if idx is not None:
        parts["idx"] = idx
    return read_session(SessionBytes("s_t_00000000.log", parts, live=live))


def folder_pairs(folder: Path) -> dict[str, SessionPair]:
    """All pairs of a folder by the name of the data file."""
    pairs = {}
    for path in sorted(folder.glob("s_*.log")):
        idx = path.with_name(path.name + ".idx")
        pairs[path.name] = pair_of(path.read_bytes(), idx.read_bytes())
    return pairs


def codes(pair: SessionPair) -> set[str]:
    """Codes of all findings that are faults."""
    return {finding.code for finding in pair.findings if finding.is_fault}


def case(name: str) -> list[dict[str, Any]]:
    """The cases of one case file."""
    found: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text())["cases"]
    return found


def b64(text: str | None) -> bytes | None:
    """Bytes of a case file's field; None stays None (the file is missing)."""
    return None if text is None else base64.b64decode(text)
