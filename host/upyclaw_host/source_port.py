"""A live board as a SOURCE: its files over the serial port, through mpremote's transport.

Owns: pulling files with size and SHA-256 compared on both sides, and pulling again what came short
(B60). Reads only; the board's program stops while its files are read and starts again at the end.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from contextlib import redirect_stdout
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.formats.findings import Finding, Severity

_TRIES = 3
_BAUD = 115200
_CHUNK = 256
_PATIENCE = 3.0  # seconds without a byte before a read gives up

# Runs on the board: every file below the given folders, one line each, `size path`.
_LIST = """
import os
def _w(d):
    try:
        for e in os.ilistdir(d):
            p = d + '/' + e[0]
            if e[1] & 0x4000:
                _w(p)
            else:
                print(os.stat(p)[6], p)
    except OSError:
        pass
_w('/data')
"""

_HASH = """
import hashlib, binascii
_h = hashlib.sha256()
_b = bytearray(256)
_v = memoryview(_b)
with open({path!r}, 'rb') as _f:
    while True:
        _n = _f.readinto(_b)
        if not _n:
            break
        _h.update(_v[:_n])
print(binascii.hexlify(_h.digest()).decode())
"""


class PortSource:
    """Files of the board at a port."""

    live = True

    def __init__(self, port: str) -> None:
        from mpremote.transport import TransportError
        from mpremote.transport_serial import SerialTransport

        self.label = port
        self.findings: list[Finding] = []
        self._files: dict[str, int] | None = None
        self._error: type[Exception] = TransportError
        try:
            self._board: Any = SerialTransport(port, baudrate=_BAUD, timeout=_PATIENCE)
        except (TransportError, OSError) as error:
            raise UserError(f"{port} can't be opened: {_reason(error)}; is another program on it?")
        try:
            # No soft reset: the board would start its program again behind our back.
            with redirect_stdout(sys.stderr):  # it prints what it got instead of a prompt
                self._board.enter_raw_repl(soft_reset=False)
        except (TransportError, OSError):
            self._board.close()
            raise UserError(f"{port} gives no MicroPython prompt: check that a board is on it.")

    def _run(self, code: str) -> str:
        try:
            text: bytes = self._board.exec(code)
        except (self._error, OSError, struct.error) as error:
            raise UserError(f"The board at {self.label} did not answer: {_reason(error)}.")
        return text.decode("utf-8", "replace")

    def files(self) -> dict[str, int]:
        """Files below `/data`, asked once."""
        if self._files is None:
            self._files = {}
            for line in self._run(_LIST).splitlines():
                size, _, path = line.partition(" ")
                if size.isdigit():
                    self._files[path.lstrip("/")] = int(size)
        return self._files

    def read(self, path: str) -> bytes:
        """Content of a file, pulled up to three times until its SHA-256 is the board's."""
        data = b""
        for _ in range(_TRIES):
            wanted = self._run(_HASH.format(path="/" + path)).strip()
            try:
                data = bytes(self._board.fs_readfile("/" + path, chunk_size=_CHUNK))
            except (self._error, OSError, struct.error) as error:
                raise UserError(f"/{path} of {self.label} did not come whole: {_reason(error)}.")
            if hashlib.sha256(data).hexdigest() == wanted:
                return data
        text = f"short copy: {_TRIES} times {len(data)} bytes came that are not the board's"
        self.findings.append(Finding(path, len(data), "short-copy", text, Severity.ERROR))
        return data

    def close(self) -> None:
        """Start the board's program again and let go of the port."""
        try:
            self._board.exit_raw_repl()
            self._board.serial.write(b"\x04")
        except (self._error, OSError):
            pass
        finally:
            self._board.close()


def _reason(error: Exception) -> str:
    return str(error).splitlines()[-1] if str(error) else type(error).__name__
