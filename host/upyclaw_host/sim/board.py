"""A simulated board: real MicroPython on a flash image behind a serial port.

Owns the life of the board: power, resets, the lock on its image, the thread that runs it. The
bytes on its line are `line.py`'s, the process is `process.py`'s. Knows nothing of the firmware.
"""

from __future__ import annotations

import os
import select
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from upyclaw_host.boards import load_board
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import FirmwareSource, build_flash, update_firmware
from upyclaw_host.flash.image import lock_image
from upyclaw_host.flash.wear import Wear, ensure_wear, read_wear
from upyclaw_host.sim.line import SerialLine
from upyclaw_host.sim.process import End, MicroPython, Start, prepare_runtime
from upyclaw_host.sim.uart import UartStats

# Without main.py the prompt comes soon; until then (s) input waits for it.
_BOOT_HOLD_S = 5.0
# So many ends in a row, each so soon (s) after its start, are no life.
_MAX_FAILURES = 4
_TOO_SOON_S = 1.0


class SimBoard:
    """A board on the flash image `flash`, which is made if it does not exist.

    `baud` slows the line to that speed; without it bytes travel at once, and more than the board's
    input buffer holds at a time is lost. `source` replaces the firmware, `update=False` leaves the
    firmware on the image alone. `network`: a scripted world of Wi-Fi networks (boards/sim/
    simnetwork.py); without it the board has no Wi-Fi. The public methods may be called from any
    thread; they return when the thing is done, within milliseconds.
    """

    def __init__(
        self,
        flash: Path | str,
        board: str = "sim",
        *,
        baud: int | None = None,
        source: FirmwareSource | None = None,
        update: bool = True,
        on_event: Callable[[str], None] | None = None,
        network: Path | None = None,
    ) -> None:
        self.spec = load_board(board)
        self.flash = Path(flash).absolute()
        self.failure: str | None = None
        self._baud = baud
        self._source = source
        self._update = update
        self._on_event = on_event
        self._network = None if network is None else Path(network).absolute()
        self._asking = threading.Lock()
        self._requests: list[tuple[str, threading.Event]] = []
        self._thread: threading.Thread | None = None
        self._runtime: tempfile.TemporaryDirectory[str] | None = None
        self._image_lock: int | None = None
        self._line: SerialLine | None = None
        self._micropython: MicroPython | None = None
        self._booted = 0.0
        self._cut_at = 0
        self._failures = 0
        self._stop = False

    # -- what users call -----------------------------------------------------------------------

    def start(self) -> str:
        """Switch the board on, unless it is on, and return its serial port.

        Raises UserError: image in use, not an image, of another size, firmware does not compile.
        """
        if self._thread is None:
            self._prepare()
            self._line = SerialLine(self.spec.rx_buffer, self._baud)
            self._wake_read, self._wake_write = os.pipe()
            os.set_blocking(self._wake_read, False)
            self._stop = False
            self._thread = threading.Thread(target=self._run, name="simulated board", daemon=True)
            self._thread.start()
        if not self.powered:
            self._ask("on")
        return self.port

    @property
    def port(self) -> str:
        """The serial port. After `unplug` and `plug` it may have another name."""
        if self._line is None or self._line.outer is None:
            raise UserError("The simulated board is not started, or its cable is unplugged.")
        return self._line.outer.path

    @property
    def powered(self) -> bool:
        """False before `start`, after `power_off`, and when it died for good (see `failure`)."""
        return self._micropython is not None

    @property
    def stats(self) -> UartStats:
        """Bytes received, lost for want of buffer, sent, and sent while nobody read."""
        if self._line is None:
            return UartStats()
        return self._line.stats

    def kill(self) -> None:
        """Hard reset: the process ends at this very moment; the board boots again at once."""
        self._ask("kill")

    def reset(self) -> None:
        """Soft reset: as Ctrl-D at the prompt, whatever runs."""
        self._ask("soft")

    def power_off(self) -> None:
        """Pull the power: the process ends at this very moment. The port stays; `start` boots."""
        self._ask("off")

    def cut_power_at(self, operation: int) -> None:
        """Boot anew and lose the power half-way through the `operation`-th program or erase.

        Then the board is off (`powered` is False) until `start`.
        """
        self._cut_at = operation
        self._ask("kill")

    def unplug(self) -> None:
        """Pull the cable: whoever has the port open gets an error. The board goes on running."""
        self._ask("unplug")

    def plug(self) -> str:
        """Put the cable in again; returns the port, which may have a new name."""
        self._ask("plug")
        return self.port

    def wear(self) -> Wear:
        """Reads, programs and erases of the flash so far, over all runs on this image."""
        wear = read_wear(self.flash)
        if wear is None:
            raise UserError(f"No board has run on {self.flash} yet.")
        return wear

    def stop(self) -> None:
        """End the simulation: process, thread, port. May be called twice."""
        if self._thread is not None:
            self._stop = True
            os.write(self._wake_write, b"x")
            self._thread.join()
            self._thread = None
            os.close(self._wake_read)
            os.close(self._wake_write)
        if self._line is not None:
            self._line.close()
            self._line = None
        self._release()

    def __enter__(self) -> SimBoard:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # -- start and end of the simulation -------------------------------------------------------

    def _prepare(self) -> None:
        """Image, lock, counters, compiled start-up code."""
        if not self.flash.exists():
            build_flash(self.flash, blocks=self.spec.blocks, source=self._source, board=self.spec)
        elif self._update:
            update_firmware(self.flash, source=self._source, board=self.spec)
        try:
            self._image_lock = lock_image(self.flash)
            size = self.flash.stat().st_size
            if size != self.spec.vfs_size:
                raise UserError(
                    f"{self.flash} has {size} bytes, but the flash of the board {self.spec.name} "
                    f"has {self.spec.vfs_size}; take another image or another board."
                )
            self._wear = ensure_wear(self.flash, self.spec.blocks)
            self._runtime = tempfile.TemporaryDirectory(prefix="upyclaw-sim-")
            prepare_runtime(Path(self._runtime.name))
        except UserError:
            self._release()
            raise

    def _release(self) -> None:
        if self._image_lock is not None:
            os.close(self._image_lock)
            self._image_lock = None
        if self._runtime is not None:
            self._runtime.cleanup()
            self._runtime = None

    def _ask(self, request: str) -> None:
        """Have the thread do `request` and wait until it is done."""
        thread = self._thread
        if thread is None:
            raise UserError("The simulated board is not started.")
        done = threading.Event()
        with self._asking:
            self._requests.append((request, done))
        os.write(self._wake_write, b"x")
        while not done.wait(0.1):
            if not thread.is_alive():
                raise UserError(self.failure or "The simulated board has stopped.")

    # -- the board's thread --------------------------------------------------------------------

    def _run(self) -> None:
        assert self._line is not None
        line = self._line
        try:
            while not self._stop:
                self._serve_requests(line)
                if self._micropython is not None:
                    end = self._micropython.ended(time.monotonic() < self._booted + _TOO_SOON_S)
                    if end is not None:
                        self._after_end(line, end)
                self._move(line)
                self._sleep(line)
        except Exception as error:
            self._fail(f"The simulated board has failed ({error!r}).")
            raise
        finally:
            self._off()

    def _move(self, line: SerialLine) -> None:
        now = time.monotonic()
        if not line.congested:
            line.drain()
        line.receive(now, self.powered)
        while self._micropython is not None and line.pass_input(now):
            if not self._micropython.interrupt():
                self._off()
                self._boot(line, Start.INTERRUPTED, with_main=False)
        line.pass_output(now)

    def _sleep(self, line: SerialLine) -> None:
        """Until there may be something to do."""
        reads, writes, timeout = line.waits()
        reads.append(self._wake_read)
        if self._micropython is not None:
            reads.append(self._micropython.control)
        select.select(reads, writes, [], timeout)
        try:
            os.read(self._wake_read, 64)
        except BlockingIOError:
            pass

    def _serve_requests(self, line: SerialLine) -> None:
        while self._requests:
            with self._asking:
                request, done = self._requests.pop(0)
            if request == "unplug":
                line.unplug()
            elif request == "plug":
                line.plug()
            elif request == "on":
                if self._micropython is None:
                    self._failures = 0
                    self._boot(line, Start.POWER_ON)
            elif request in ("kill", "soft", "off"):
                self._off()
                line.drain()
                if request != "off":
                    self._boot(line, Start.POWER_ON if request == "kill" else Start.SOFT)
            done.set()

    def _boot(
        self, line: SerialLine, start: Start, *, with_main: bool = True, to_raw: bool = False
    ) -> None:
        text = {
            Start.POWER_ON: self.spec.power_on_text,
            Start.RESET: self.spec.reset_text,
            Start.SOFT: "MPY: soft reboot\n",
            Start.INTERRUPTED: "",
        }[start]
        line.emit(text.encode())
        line.boot(
            keep_input=start in (Start.SOFT, Start.INTERRUPTED),
            to_raw=to_raw,
            hold_s=0 if with_main else _BOOT_HOLD_S,
        )
        assert self._runtime is not None
        self._booted = time.monotonic()
        self._micropython = MicroPython(
            self.spec,
            self.flash,
            self._wear,
            Path(self._runtime.name),
            line.inner.slave,
            start,
            with_main,
            self._cut_at,
            self._network,
        )
        self._cut_at = 0

    def _off(self) -> None:
        if self._micropython is not None:
            self._micropython.close()
            self._micropython = None

    def _after_end(self, line: SerialLine, end: End) -> None:
        """MicroPython has ended by itself: do what the chip does then."""
        line.drain()
        self._off()
        self._event(end.value)
        self._failures = self._failures + 1 if end is End.CRASHED else 0
        if end is End.POWER_CUT:
            return
        if self._failures >= _MAX_FAILURES:
            self._fail("MicroPython crashes at every start; the simulated board is switched off.")
        elif end is End.SOFT:
            self._boot(line, Start.SOFT, with_main=not line.raw_repl, to_raw=line.raw_repl)
        elif end is End.INTERRUPTED:
            self._boot(line, Start.INTERRUPTED, with_main=False)
        else:
            self._boot(line, Start.RESET)

    def _event(self, text: str) -> None:
        if self._on_event is not None:
            self._on_event(text)

    def _fail(self, text: str) -> None:
        self.failure = text
        self._event(text)
