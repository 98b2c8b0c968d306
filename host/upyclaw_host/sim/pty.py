"""Pseudo terminals as serial lines: raw byte pipes whose state can be asked.

Owns the calls of termios and ioctl. Works on Linux and macOS.
"""

from __future__ import annotations

import array
import fcntl
import os
import termios
from typing import Any

# The unix port of MicroPython clears all local flags while its prompt reads and puts them back
# while code runs. NOFLSH does nothing on a line without signals, so it can serve as the mark of
# "running".
_RUNNING_MARK = termios.NOFLSH
_LFLAG = 3


class Pty:
    """A pair of descriptors. The simulator holds both: the line outlives whoever opens it."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        self.path = os.ttyname(self.slave)
        for descriptor in (self.master, self.slave):
            os.set_inheritable(descriptor, False)
        os.set_blocking(self.master, False)
        self.reset()

    def reset(self) -> None:
        """Every byte passes as it is: no echo, no signals, no translation."""
        settings: list[Any] = termios.tcgetattr(self.slave)
        settings[0] = settings[1] = 0
        settings[2] = (settings[2] & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
        settings[_LFLAG] = _RUNNING_MARK
        settings[6][termios.VMIN] = 1
        settings[6][termios.VTIME] = 0
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)

    def discard(self) -> None:
        """Forget what waits in both directions."""
        termios.tcflush(self.slave, termios.TCIOFLUSH)

    def unread(self) -> int:
        """Bytes sent to the slave side that its reader has not taken yet."""
        count = array.array("i", [0])
        fcntl.ioctl(self.slave, termios.FIONREAD, count)
        return count[0]

    def at_prompt(self) -> bool:
        """True while MicroPython's REPL reads from this line, False while code runs."""
        flags: int = termios.tcgetattr(self.slave)[_LFLAG]
        return not flags & _RUNNING_MARK

    def read(self, limit: int = 4096) -> bytes:
        """What the slave side has sent, b"" if nothing waits or the line is dead."""
        try:
            return os.read(self.master, limit)
        except (BlockingIOError, OSError):
            return b""

    def write(self, data: bytes) -> int:
        """Send to the slave side; returns how many bytes there was room for."""
        try:
            return os.write(self.master, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        for descriptor in (self.master, self.slave):
            os.close(descriptor)
