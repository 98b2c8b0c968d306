"""esptool as a program: what chip is there, read, write and erase its flash.

Owns the calls of esptool (a process each, for it keeps state and ends its own process on errors)
and the sentences about what it says. Decides nothing about what may be written.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import serial

from upyclaw_host.boards import CHIPS, Chip
from upyclaw_host.errors import UserError
from upyclaw_host.link.ports import port_error

Share = Callable[[float], None]  # 0.0 to 1.0 of the work done

_CHIP = re.compile(r"Detecting chip type\.* *(ESP[\w-]+)|Connected to (ESP[\w-]+) on ")
_SIZE = re.compile(r"Detected flash size: (\d+)(MB|KB)")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")
_READ_STEP = 0x1000  # reads are whole sectors


@dataclass(frozen=True)
class Found:
    """What is at a port. `flash_size` in bytes, 0 if unknown."""

    chip: Chip | None
    title: str
    flash_size: int


class EspTool:
    """The chip at `port`, reached through its boot loader; every call resets it into that."""

    def __init__(self, port: str, baud: int = 460800) -> None:
        self.port = port
        self._baud = baud
        try:
            serial.serial_for_url(port, exclusive=True).close()
        except ValueError:  # a URL has no such thing as exclusive use
            pass
        except OSError as error:
            raise port_error(port, error) from None

    def identify(self) -> Found:
        """Chip and flash size. Raises UserError if no chip answers."""
        text = self._run("--after", "no-reset", "flash-id")
        names = _CHIP.findall(text)
        title = next((b or a for a, b in reversed(names)), "unknown chip")
        size = _SIZE.search(text)
        unit = {"MB": 1 << 20, "KB": 1 << 10}
        chip = next((c for c in CHIPS.values() if c.title == title), None)
        return Found(chip, title, int(size[1]) * unit[size[2]] if size else 0)

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes of flash from `offset`, both multiples of 4096."""
        assert offset % _READ_STEP == 0 and size % _READ_STEP == 0
        with tempfile.TemporaryDirectory(prefix="upyclaw-") as folder:
            target = Path(folder) / "flash.bin"
            command = ("read-flash", hex(offset), hex(size), str(target))
            self._run("--after", "no-reset", *command)
            return target.read_bytes()

    def write(self, chip: Chip, path: Path, share: Share | None = None) -> None:
        """Write the image `path` at the chip's own offset, have it checked, start the chip."""
        self._run(
            *("--chip", chip.name, "--after", "hard-reset"),
            *("write-flash", hex(chip.offset), str(path)),
            share=share,
        )

    def erase(self, offset: int, size: int) -> None:
        """Set a region to FF."""
        self._run("--after", "no-reset", "erase-region", hex(offset), hex(size))

    def restart(self) -> None:
        """Start what is on the chip."""
        self._run("--after", "hard-reset", "chip-id")

    def _run(self, *arguments: str, share: Share | None = None) -> str:
        command = [sys.executable, "-m", "esptool", "--port", self.port]
        command += ["--baud", str(self._baud), *arguments]
        env = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
        )
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for raw in process.stdout:
                line = raw.decode("utf-8", "replace")
                lines.append(line)
                percent = _PERCENT.search(line)
                if share and percent:
                    share(float(percent[1]) / 100)
            process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        text = "".join(lines)
        if process.returncode != 0:
            raise self._error(text)
        return text

    def _error(self, text: str) -> UserError:
        """One sentence for what esptool ended with."""
        port = self.port
        reasons = re.findall(r"(?:fatal error occurred|Error|ERROR): *(.*)", text)
        reason = reasons[-1].strip() if reasons else (text.strip().splitlines() or ["no word"])[-1]
        low = text.lower()
        if "failed to connect" in low or "no serial data" in low or "wrong boot mode" in low:
            return UserError(
                f"No ESP32 chip answers on {port}: hold the BOOT button, press and release RESET, "
                "release BOOT, and try again; check the cable too (some only charge)."
            )
        if "could not open" in low or "busy" in low:
            return UserError(f"The port {port} can't be opened: close other programs on it.")
        if "does not match" in low:
            return UserError(
                f"What arrived on the chip at {port} is not what was sent: try again."
            )
        if "no more data to read" in low or "disconnect" in low:
            return UserError(
                f"The board at {port} went away in mid-work: check the cable and begin again."
            )
        return UserError(f"esptool could not do it on {port}: {reason.rstrip('.')}.")
