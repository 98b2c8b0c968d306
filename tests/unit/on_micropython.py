"""Runs a script in the real MicroPython, for tests of the PC's side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from device_runner.process import FIRMWARE, PIECES


def micropython(script: Path, *arguments: Path | str, heap: str = "2M") -> str:
    """What `script` prints; it must end without an error. Errors it prints are not among it.

    It may import the device package and the modules of `bench/device`.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "micropython_unix", "-X", f"heapsize={heap}"),
            *(str(part) for part in (script, *arguments)),
        ],
        env={**os.environ, "MICROPYPATH": f"{FIRMWARE}:{PIECES}:.frozen"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    return done.stdout
