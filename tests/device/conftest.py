"""Runs each function of this folder twice: `[cpython]` here, `[micropython]` in real MicroPython.

A test takes `root` (an empty folder, as str) or nothing, may be `async def`, and skips itself by
printing `SKIP: reason`. The module constants HEAPSIZE = "192k" and TIMEOUT = 60 (seconds a file)
set the MicroPython process.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from device_runner.process import DEFAULT_TIMEOUT_S, PIECES, DeviceFile, Outcome, run_file

_HERE = Path(__file__).resolve().parent
_FILES: dict[Path, DeviceFile] = {}

# Helper modules are imported by their bare name, as under MicroPython.
sys.path.insert(0, str(_HERE))
sys.path.append(str(PIECES))


@pytest.fixture(autouse=True, params=["cpython", "micropython"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def _wants_root(item: pytest.Function) -> bool:
    names = list(inspect.signature(item.function).parameters)
    assert names in ([], ["root"]), f"a device test takes `root` or nothing, not {names}"
    return bool(names)


def _is_micropython(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("runtime") == "micropython"


def _device_file(item: pytest.Function) -> DeviceFile:
    """The results of the item's file; on first use its selected functions run in one process."""
    file = _FILES.get(item.path)
    if file is None:
        selected = [
            other
            for other in item.session.items
            if other.path == item.path and _is_micropython(other)
        ]
        file = DeviceFile(
            item.path,
            {other.originalname: _wants_root(other) for other in selected},
            heap=getattr(item.module, "HEAPSIZE", None),
            timeout_s=getattr(item.module, "TIMEOUT", DEFAULT_TIMEOUT_S),
        )
        run_file(file)
        _FILES[item.path] = file
    return file


class _Tee(io.StringIO):
    """Keeps what a test prints and hands it on."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self._target = target

    def write(self, text: str) -> int:
        self._target.write(text)
        return super().write(text)


def _run_here(item: pytest.Function, arguments: dict[str, Any]) -> str:
    tee = _Tee(sys.stdout)
    with contextlib.redirect_stdout(tee):
        result = item.obj(**arguments)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    return tee.getvalue()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if _HERE not in pyfuncitem.path.parents:
        return None
    takes_root = _wants_root(pyfuncitem)
    if _is_micropython(pyfuncitem):
        outcome = _device_file(pyfuncitem).outcomes[pyfuncitem.originalname]
    else:
        arguments = {"root": pyfuncitem.funcargs["root"]} if takes_root else {}
        outcome = Outcome("ok", _run_here(pyfuncitem, arguments))
    if outcome.state != "ok":
        pytest.fail(f"under MicroPython:\n{outcome.output}", pytrace=False)
    if outcome.skip_reason is not None:
        pytest.skip(outcome.skip_reason)
    if outcome.output and _is_micropython(pyfuncitem):
        print(outcome.output)
    return True
