"""Prints what each module of the firmware costs in heap when the app is imported, largest first.

`heap_by_module.py [MODULE]` (default upyclaw.app). The firmware is compiled as for a board and
runs in the PC's MicroPython, whose words have 64 bits: a chip needs about 0.6 of these figures.
Bytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from upyclaw_host import resources
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


def main(arguments: list[str]) -> int:
    module = arguments[0] if arguments else "upyclaw.app"
    with tempfile.TemporaryDirectory(prefix="upyclaw-heap-") as folder:
        compile_package(resources.device_package(), Path(folder) / "upyclaw")
        script = Path(folder) / "probe.py"
        script.write_text(PROBE.format(module=module))
        command = [sys.executable, "-m", "micropython_unix", "-X", "heapsize=4M", str(script)]
        return subprocess.run(
            command, env={"MICROPYPATH": f"{folder}:.frozen"}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
