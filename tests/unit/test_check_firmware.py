"""tools/check_firmware.py catches what a chip cannot run, and lets through what it can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import check_firmware  # noqa: E402

BAD = {
    "x = a / b": "true division",
    "x /= 2": "true division",
    "x = 0.5": "float literal",
    "x = float(y)": "float()",
    "import typing": "no module typing",
    "from dataclasses import dataclass": "no module dataclasses",
    "from os import replace": "os.replace",
    "os.fsync(1)": "os.fsync",
    "q = asyncio.Queue()": "asyncio.Queue",
    "t = time.time()": "counts from 2000",
    "t = time.monotonic()": "time.monotonic",
    "x = json.loads(y)": "surrogate",
    "x = y.removeprefix('a')": "removeprefix",
    "x = y.hex(':')": "hex()",
    "x = y.decode('utf-8', 'replace')": "errors",
    "x = y.decode(errors='replace')": "errors",
    "x = json.dumps(y, ensure_ascii=False)": "ensure_ascii",
    "print(x, flush=True)": "flush",
    "x = y.split(maxsplit=1)": "maxsplit",
    "x = {**y, 'a': 1}": "dict display",
    "match x:\n    case 1:\n        pass": "match",
    "x = [z for y in w if (z := y)]": "comprehension",
    "async def f():\n    yield 1": "yield",
    "async def f():\n    return [x async for x in y]": "async for",
    "x = f'{y=}'": "f-string",
    "def f(a, /):\n    return a": "does not compile",
    "def f(:": "does not parse",
}

GOOD = """
import asyncio
import json
from micropython import const

_LIMIT = const(5)


async def f(a, *rest, b=1):
    if (n := len(rest)) > _LIMIT:
        a //= 2
    text = f"{a}={b!r} {'x' if n else 'y'}"
    async with a as c:
        async for d in c:
            await asyncio.sleep_ms(1)
    return json.dumps({"a": text}, separators=(",", ":")).encode(), [x * 2 for x in rest]


def g():
    yield from (1, 2)
"""


@pytest.mark.parametrize(("source", "words"), BAD.items())
def test_what_the_chip_lacks_is_found(tmp_path: Path, source: str, words: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text("import json, os, time, asyncio\n" + source + "\n")
    findings = check_firmware.check_file(path, tmp_path)
    assert any(words in text for _, text in findings), findings


def test_what_the_chip_has_passes(tmp_path: Path) -> None:
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    assert check_firmware.check_file(path, tmp_path) == []


def test_the_allow_list_is_by_file(tmp_path: Path) -> None:
    for folder, count in (("upyclaw", 0), ("other", 1)):
        path = tmp_path / folder / "compat.py"
        path.parent.mkdir()
        path.write_text("import time\n\nnow = time.time()\n")
        assert len(check_firmware.check_file(path, tmp_path)) == count


def test_the_command_ends_with_1_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = x / 2\n")
    tool = [sys.executable, str(REPOSITORY / "tools" / "check_firmware.py")]
    result = subprocess.run([*tool, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "a.py:2: true division" in result.stdout
    (tmp_path / "a.py").write_text("x = 1\n")
    assert subprocess.run([*tool, str(tmp_path)], capture_output=True, check=False).returncode == 0
