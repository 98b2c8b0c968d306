"""The device test runner reports failures, crashes, hangs and skips, each where it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_runner.process import DeviceFile, run_file


def run(tmp_path: Path, source: str, functions: dict[str, bool], **options: object) -> DeviceFile:
    path = tmp_path / "test_sample.py"
    path.write_text(source)
    file = DeviceFile(path, functions, **options)  # type: ignore[arg-type]
    run_file(file)
    return file


def test_failed_assertion_names_file_line_and_message(tmp_path: Path) -> None:
    source = "def test_a():\n    assert 1 == 2, 'one is not two'\n\ndef test_b():\n    pass\n"
    file = run(tmp_path, source, {"test_a": False, "test_b": False})
    assert file.outcomes["test_a"].state == "failed"
    assert 'test_sample.py", line 2, in test_a' in file.outcomes["test_a"].output
    assert "AssertionError: one is not two" in file.outcomes["test_a"].output
    assert file.outcomes["test_b"].state == "ok"


def test_each_function_gets_an_empty_littlefs(tmp_path: Path) -> None:
    source = """
import os
def test_a(root):
    assert os.listdir(root) == []
    assert os.statvfs(root)[0] == 4096 and os.statvfs(root)[2] == 512
    with open(root + "/x", "w") as f:
        f.write("x")
    os.chdir(root)
test_b = test_a
"""
    file = run(tmp_path, source, {"test_a": True, "test_b": True})
    assert [o.state for o in file.outcomes.values()] == ["ok", "ok"], file.outcomes


def test_async_functions_run_and_left_tasks_do_not_leak(tmp_path: Path) -> None:
    source = """
import asyncio
seen = []
async def later():
    await asyncio.sleep_ms(1)
    seen.append(1)
async def test_a():
    asyncio.create_task(later())
async def test_b():
    await asyncio.sleep_ms(20)
    assert not seen
"""
    file = run(tmp_path, source, {"test_a": False, "test_b": False})
    assert [o.state for o in file.outcomes.values()] == ["ok", "ok"], file.outcomes


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "was stopped after"),
        ("import uctypes; print(uctypes.bytearray_at(0, 16))", "ended with code -11"),
    ],
    ids=["hang", "crash"],
)
def test_a_dead_process_fails_the_rest_with_its_output(
    tmp_path: Path, body: str, words: str
) -> None:
    source = f"""
def test_a():
    pass
def test_b():
    print("was here")
    {body}
test_c = test_a
"""
    names = dict.fromkeys(["test_a", "test_b", "test_c"], False)
    file = run(tmp_path, source, names, timeout_s=3.0)
    assert file.outcomes["test_a"].state == "ok"
    assert file.outcomes["test_b"].state == "lost"
    assert words in file.outcomes["test_b"].output
    assert "ended in test_b" in file.outcomes["test_c"].output


def test_a_file_that_does_not_import_fails_every_function(tmp_path: Path) -> None:
    file = run(tmp_path, "import nosuchmodule\n", {"test_a": False})
    assert file.outcomes["test_a"].state == "lost"
    assert "nosuchmodule" in file.outcomes["test_a"].output


def test_skip_and_heap_size(tmp_path: Path) -> None:
    source = """
import gc, upyclaw.compat
def test_a():
    print("SKIP: not today")
def test_b():
    assert 20000 < gc.mem_free() < 65536
"""
    file = run(tmp_path, source, {"test_a": False, "test_b": False}, heap="64k")
    assert file.outcomes["test_a"].skip_reason == "not today"
    assert file.outcomes["test_b"].state == "ok", file.outcomes["test_b"].output
