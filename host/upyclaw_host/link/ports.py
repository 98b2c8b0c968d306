"""Serial ports: opening one without resetting the board, reading it in a thread.

Owns pyserial, the control lines (B23) and the sentences about ports. Knows nothing of frames.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import serial
from serial.tools import list_ports

from upyclaw_host.errors import UserError

WRITE_TIMEOUT_S = 2.0


class Transport(Protocol):
    """A way to a board: bytes out, bytes and the end of the line reported from any thread."""

    name: str

    def start(self, on_data: Callable[[bytes], None], on_error: Callable[[str], None]) -> None:
        """Begin to report."""

    def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError (serial.SerialException is one)."""

    def close(self) -> None:
        """Let go of the line; nothing is reported afterwards."""


def _others(port: str) -> str:
    names = [info.device for info in list_ports.comports() if info.device != port]
    return f" (ports here: {', '.join(sorted(names))})" if names else " (no serial port found)"


def _owner(port: str) -> str:
    try:
        import grp

        return grp.getgrgid(os.stat(port).st_gid).gr_name
    except (ImportError, OSError, KeyError):
        return "dialout"


def port_error(port: str, error: Exception) -> UserError:
    """The sentence for an `error` on opening `port`."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
        return UserError(
            f"There is no port {port}{_others(port)}: plug the board in or name another --port."
        )
    if number in (errno.EACCES, errno.EPERM):
        return UserError(
            f"No permission to open {port}: add yourself to the group {_owner(port)} "
            f"(sudo usermod -aG {_owner(port)} $USER) and log in again."
        )
    if number in (errno.EBUSY, errno.EAGAIN):
        return UserError(
            f"The port {port} is in use by another program: close it "
            "(a terminal, mpremote, another upyclaw) and try again."
        )
    # pyserial drops the number where termios refuses.
    if number in (errno.ENOTTY, errno.EINVAL, errno.EISDIR) or "configure port" in str(error):
        return UserError(f"{port} is not a serial port: name the board's port with --port.")
    return UserError(f"The port {port} could not be opened: {error}.")


def _keep_lines_on_close(port: serial.Serial) -> None:
    """The system drops DTR and RTS on the last close, which resets many boards: tell it not to."""
    try:
        import termios

        attributes = termios.tcgetattr(port.fileno())
        attributes[2] &= ~termios.HUPCL
        termios.tcsetattr(port.fileno(), termios.TCSANOW, attributes)
    except (ImportError, AttributeError, OSError, termios.error):
        pass


class SerialTransport:
    """A port opened with pyserial. `port`: a device name or a pyserial URL."""

    def __init__(self, port: str, baud: int = 115200) -> None:
        self.name = port
        try:
            line = serial.serial_for_url(port, do_not_open=True, baudrate=baud)
            # POSIX raises both lines itself on opening. The usual reset circuit acts only when
            # they differ, so leave both as they are; elsewhere keep both low.
            both = sys.platform != "win32"
            line.dtr = both
            line.rts = both
            line.timeout = 0.2
            line.write_timeout = WRITE_TIMEOUT_S
            with contextlib.suppress(ValueError):
                line.exclusive = True
            line.open()
        except (OSError, ValueError) as error:
            raise port_error(port, error) from None
        self._line = line
        _keep_lines_on_close(line)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, on_data: Callable[[bytes], None], on_error: Callable[[str], None]) -> None:
        """Read in a thread of its own; the callbacks run there."""
        self._thread = threading.Thread(
            target=self._read, args=(on_data, on_error), name="upyclaw-port", daemon=True
        )
        self._thread.start()

    def _read(self, on_data: Callable[[bytes], None], on_error: Callable[[str], None]) -> None:
        while not self._stop.is_set():
            try:
                data = self._line.read(self._line.in_waiting or 1)
            # pyserial lets TypeError through when the port is closed under it.
            except (OSError, TypeError) as error:
                if not self._stop.is_set():
                    on_error(str(error))
                return
            if data and not self._stop.is_set():
                on_data(data)

    def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError."""
        self._line.write(data)

    def close(self) -> None:
        """Close the port; DTR and RTS stay as they are."""
        self._stop.set()
        with contextlib.suppress(OSError, AttributeError):
            self._line.cancel_read()
        if self._thread is not None:
            self._thread.join(1.0)
        with contextlib.suppress(OSError):
            self._line.close()
