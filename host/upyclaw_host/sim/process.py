"""One run of MicroPython between two resets of the simulated board.

Owns the process, its control pipe and the compiled start-up code. Knows nothing of serial lines
except the one descriptor it hands to the process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path

from upyclaw_host import resources
from upyclaw_host.boards import BoardSpec
from upyclaw_host.flash.mpy import compile_file

_LAUNCH = Path(__file__).with_name("launch.py")


class Start(Enum):
    """Why MicroPython starts; the first value is what `machine.reset_cause()` returns."""

    POWER_ON = (1, "power")
    RESET = (2, "reset")
    SOFT = (5, "soft reset")
    # Ctrl-C came where no code of the board could see it: go to the prompt, as the chip would.
    INTERRUPTED = (5, "interrupt")


class End(Enum):
    """Why it ended."""

    RESET = "machine.reset()"
    SOFT = "soft reset"
    INTERRUPTED = "Ctrl-C outside of any code"
    CRASHED = "crash"
    POWER_CUT = "power cut"


# The end of a process so soon (s) after Ctrl-C is its doing.
_INTERRUPT_S = 1.0

# KB of heap that boards/sim/simnetwork.py takes, measured; `network` is C code on a chip.
_NETWORK_SHIM = 6

# What simmachine.py writes to the control pipe: that the board's own code begins, and a request.
_LISTENS = b"L"
_REQUESTS = {b"R": End.RESET, b"S": End.SOFT, b"F": End.CRASHED, b"C": End.POWER_CUT}


def _heap(spec: BoardSpec, network: Path | None) -> str:
    """The board's heap, and what the shim of a module takes that is not on it on a chip."""
    return spec.heap if network is None else f"{int(spec.heap.rstrip('k')) + _NETWORK_SHIM}k"


def prepare_runtime(folder: Path) -> None:
    """Put the compiled start-up code of the simulated board into `folder`."""
    source = resources.boards_dir() / "sim"
    for module in ("simboot", "simflash", "simmachine", "simnetwork"):
        compile_file(source / f"{module}.py", folder / f"{module}.mpy", name=f"{module}.py")
    shutil.copyfile(source / "start.py", folder / "start.py")


class MicroPython:
    """A running MicroPython with `image` as its flash. `line` is its standard input and output."""

    def __init__(
        self,
        spec: BoardSpec,
        image: Path,
        wear: Path,
        runtime: Path,
        line: int,
        start: Start,
        with_main: bool,
        cut_at: int = 0,
        network: Path | None = None,
    ) -> None:
        self.control, control = os.pipe()
        os.set_blocking(self.control, False)
        env = {
            **os.environ,
            "MICROPYPATH": f"{runtime}:.frozen",
            "UPYSIM_IMAGE": str(image),
            "UPYSIM_WEAR": str(wear),
            "UPYSIM_BLOCKS": str(spec.blocks),
            "UPYSIM_BLOCK": str(spec.block),
            "UPYSIM_PROGSIZE": str(spec.progsize),
            "UPYSIM_CONTROL": str(control),
            "UPYSIM_CUT": str(cut_at),
            "UPYSIM_CAUSE": str(start.value[0]),
            "UPYSIM_MAIN": "1" if with_main else "0",
            "UPYSIM_NETWORK": "" if network is None else str(network),
        }
        env.pop("MICROPYINSPECT", None)
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    str(_LAUNCH),
                    "-X",
                    f"heapsize={_heap(spec, network)}",
                    "-i",
                    str(runtime / "start.py"),
                ],
                stdin=line,
                stdout=line,
                stderr=line,
                env=env,
                cwd=runtime,
                pass_fds=(control,),
                start_new_session=True,
            )
        finally:
            os.close(control)
        self._listens = False
        self._interrupted: float | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def interrupt(self) -> bool:
        """KeyboardInterrupt in the board's code; False if that has not begun yet.

        Until then a signal would hit Python, which starts MicroPython, or the code that mounts the
        flash, and the board would be lost.
        """
        if self._listens:
            self._interrupted = time.monotonic()
            self._signal(signal.SIGUSR1)
        return self._listens

    def kill(self) -> None:
        """End it in the middle of whatever it does, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def ended(self, young: bool) -> End | None:
        """None while it runs. A reset that the program asked for is carried out here.

        `young`: it started so recently that an end with an error is a failed start.
        """
        try:
            said = os.read(self.control, 16)
        except BlockingIOError:
            said = b""
        if said.startswith(_LISTENS):
            self._listens = True
            said = said[1:]
        if said:
            self.kill()
            return _REQUESTS.get(said[:1], End.CRASHED)
        code = self._process.poll()
        if code is None:
            return None
        asked = self._interrupted
        if code and asked is not None and time.monotonic() < asked + _INTERRUPT_S:
            # It was just about to show its prompt, where the unix port expects no Ctrl-C.
            return End.INTERRUPTED
        # `sys.exit()` at the prompt or in an app is a soft reset on a chip, whatever its number.
        return End.CRASHED if code < 0 or (code > 0 and young) else End.SOFT

    def close(self) -> None:
        """Kill it if it runs and let go of the pipe."""
        self.kill()
        os.close(self.control)
