"""One MicroPython process per test file: start it, read its marks, keep each function's result."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from upyclaw_host.flash.mpy import compile_file, compile_package

REPOSITORY = Path(__file__).resolve().parents[2]
FIRMWARE = REPOSITORY / "firmware"
# Modules that benchmarks and tests share.
PIECES = REPOSITORY / "host" / "upyclaw_host" / "bench" / "device"
DEFAULT_HEAP = "2M"
DEFAULT_TIMEOUT_S = 60
_MARK = "\x01@ "
_IMAGE_BYTES = 512 * 4096


@dataclass
class Outcome:
    """How one function ended: `ok`, `failed` or `lost` (the process ended before it did)."""

    state: str
    output: str = ""

    @property
    def skip_reason(self) -> str | None:
        """The text after a printed `SKIP:`, None if the function did not ask to be skipped."""
        for line in self.output.splitlines():
            if line.startswith("SKIP:"):
                return line[5:].strip()
        return None


@dataclass
class DeviceFile:
    """The test functions of one file: name -> True if it takes `root`."""

    path: Path
    functions: dict[str, bool]
    heap: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    outcomes: dict[str, Outcome] = field(default_factory=dict)


def shared_dir() -> Path | None:
    """The folder with the project's common documents and golden files, if there is one."""
    shared = REPOSITORY.parent / "shared"
    return shared if shared.is_dir() else None


def device_environment() -> dict[str, str]:
    """Variables that device tests may read with `os.getenv` on both runtimes."""
    env = {"UPYCLAW_TEST_DATA": str(REPOSITORY / "tests" / "data")}
    shared = shared_dir()
    if shared is not None:
        env["UPYCLAW_SHARED"] = str(shared)
    return env


def _parse(output: str, file: DeviceFile) -> None:
    current: str | None = None
    lines: list[str] = []
    for line in output.splitlines():
        if not line.startswith(_MARK):
            lines.append(line)
            continue
        word, _, name = line[len(_MARK) :].partition(" ")
        if word == "begin":
            current, lines = name, []
        elif word in ("ok", "failed"):
            file.outcomes[name] = Outcome(word, "\n".join(lines).strip("\n"))
            current, lines = None, []
    rest = "\n".join(lines).strip("\n")
    for name in file.functions:
        if name not in file.outcomes:
            where = "" if name == current else f"(the process ended in {current or 'start-up'})\n"
            file.outcomes[name] = Outcome("lost", where + rest)


def _compile_test(path: Path, folder: Path) -> Path:
    """Compile the test file and the modules that it may import into `folder`."""
    helpers = [
        other
        for other in (*path.parent.glob("*.py"), *PIECES.glob("*.py"))
        if not other.name.startswith(("test_", "conftest", "__init__"))
    ]
    for source in (path, *helpers):
        target = folder / source.with_suffix(".mpy").name
        compile_file(source, target, name=str(source), optimise=0)
    return folder / path.with_suffix(".mpy").name


def run_file(file: DeviceFile) -> None:
    """Run all functions of `file` and fill `file.outcomes`.

    With a heap of its own choice the file and the firmware are compiled first, as on a board: a
    compiler that runs in the small heap would spoil what such a test measures.
    """
    with tempfile.TemporaryDirectory(prefix="upyclaw-device-") as temp:
        folder = Path(temp)
        image = folder / "flash.img"
        with image.open("wb") as handle:
            handle.truncate(_IMAGE_BYTES)
        firmware, test_file = FIRMWARE, file.path
        if file.heap is not None:
            firmware = folder / "firmware"
            compile_package(FIRMWARE / "upyclaw", firmware / "upyclaw", optimise=0)
            test_file = _compile_test(file.path, folder / "test")
        argv = [
            sys.executable,
            "-m",
            "micropython_unix",
            "-X",
            f"heapsize={file.heap or DEFAULT_HEAP}",
        ]
        argv += [str(Path(__file__).with_name("mp_main.py")), str(image), str(test_file)]
        argv += [name + (":root" if takes else "") for name, takes in file.functions.items()]
        env = {**os.environ, **device_environment(), "MICROPYPATH": f"{firmware}:{PIECES}:.frozen"}
        with subprocess.Popen(
            argv,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                raw, _ = process.communicate(timeout=file.timeout_s)
                end = f"(MicroPython ended with code {process.returncode})"
            except subprocess.TimeoutExpired:
                process.kill()
                raw, _ = process.communicate()
                end = f"(MicroPython was stopped after {file.timeout_s} s)"
    _parse(raw.decode("utf-8", "replace").replace("\r\n", "\n") + "\n" + end, file)
