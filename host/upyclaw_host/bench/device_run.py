"""Runs a script of `bench/device` in real MicroPython with the device package beside it.

Owns the call of MicroPython for benchmarks that need no board. The scripts print JSON lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.resources import device_package

_SCRIPTS = Path(__file__).resolve().parent / "device"


def run_script(name: str, *arguments: str, heap: str = "64M") -> Iterator[dict[str, Any]]:
    """Run `bench/device/<name>.py` with `arguments`; yields each JSON object that it prints.

    Raises UserError with the script's last words if it ends with an error.
    """
    argv = [sys.executable, "-m", "micropython_unix", "-X", f"heapsize={heap}"]
    argv += [str(_SCRIPTS / f"{name}.py"), *arguments]
    env = {**os.environ, "MICROPYPATH": f"{device_package().parent}:.frozen"}
    last = ""
    with subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
                elif line.strip():
                    last = line.strip()
        finally:
            if process.poll() is None:
                process.terminate()
    if process.returncode:
        raise UserError(f"The benchmark script {name}.py failed: {last or process.returncode}.")
