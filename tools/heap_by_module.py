"""Prints what each module of the firmware costs in heap when the app is imported, largest first.

`heap_by_module.py [MODULE]` (default upyclaw.app), bytes. Each file is compiled by itself, so that
its cost shows; the last lines are for the files as they lie on a board (join.py). All runs in the
PC's MicroPython, whose words have 64 bits: a chip needs about 0.6 of these figures.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from upyclaw_host import resources
from upyclaw_host.flash.firmware import firmware_files
from upyclaw_host.flash.mpy import compile_package

# Runs in MicroPython: measures around every import; what an import takes in turn is taken off.
PROBE = """
import asyncio, builtins, gc, micropython, sys

def used():
    gc.collect()
    return gc.mem_alloc()

rows = []
inner = [0]
original = builtins.__import__

def measured(*args):
    known = set(sys.modules)
    before = used()
    inner.append(0)
    module = original(*args)
    taken = used() - before
    own = taken - inner.pop()
    inner[-1] += taken
    new = [name for name in sys.modules if name not in known]
    if own > 0 and new:
        rows.append((own, args[0], len(new)))
    return module

builtins.__import__ = measured
measured({module!r})
rows.sort()
for own, name, _ in reversed(rows):
    print("%7d  %s" % (own, name))
print("%7d  all together" % sum(row[0] for row in rows))
micropython.qstr_info()
"""

TOTAL = """
import asyncio, gc, micropython

gc.collect()
before = gc.mem_alloc()
import {module}
gc.collect()
print("%7d  as on the board" % (gc.mem_alloc() - before))
micropython.qstr_info()
"""


def main(arguments: list[str]) -> int:
    module = arguments[0] if arguments else "upyclaw.app"
    with tempfile.TemporaryDirectory(prefix="upyclaw-heap-") as folder:
        apart, joined = Path(folder) / "apart", Path(folder) / "joined"
        compile_package(resources.device_package(), apart / "upyclaw")
        for name, data in firmware_files().items():
            path = joined / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return _run(apart, PROBE.format(module=module)) or _run(
            joined, TOTAL.format(module=module)
        )


def _run(folder: Path, program: str) -> int:
    script = folder / "probe.py"
    script.write_text(program)
    command = [sys.executable, "-m", "micropython_unix", "-X", "heapsize=4M", str(script)]
    return subprocess.run(
        command, env={"MICROPYPATH": f"{folder}:.frozen"}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
