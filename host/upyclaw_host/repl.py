"""MicroPython's prompt on a live board, through mpremote's transport.

Owns: getting in while a program runs (B22), running code, listing, hashing, pulling and writing
files, starting the program again. Every copy is compared by SHA-256 on both sides (B60). Knows
nothing of what the files mean.
"""

from __future__ import annotations

import binascii
import contextlib
import errno
import hashlib
import io
import struct
import time
from collections.abc import Callable
from typing import Any

import serial

from upyclaw_host.errors import UserError
from upyclaw_host.link.ports import port_error

BAUD = 115200
Progress = Callable[[int], None]  # bytes since the last call

_PATIENCE_S = 3.0  # without a byte before a read gives up
_OPENINGS, _PAUSE_S = 4, 0.3  # a program that is just ending may still have the port
_WAITS_S = (2.0, 4.0, 8.0)  # for the prompt; a board may boot, or be deep in work
_PIECE = 768  # bytes of a file in one call on the board

# Runs on the board once: `_ul` lists, `_uh` hashes, `_ur` sends, `_uo` and `_uw` write files.
_KIT = """
import os, hashlib
from binascii import a2b_base64 as _ua, b2a_base64 as _ub, hexlify as _ux
def _ul(d, t):
    try:
        for e in os.ilistdir(d or '/'):
            p = d + '/' + e[0]
            if e[1] & 0x4000:
                _ul(p, t)
            else:
                print(os.stat(p)[6], _uh(p) if t else '-', p)
    except OSError:
        pass
def _uf(p, o):
    h = hashlib.sha256()
    b = bytearray(384)
    v = memoryview(b)
    with open(p, 'rb') as f:
        while True:
            n = f.readinto(b)
            if not n:
                break
            h.update(v[:n])
            if o:
                print(_ub(v[:n]).decode(), end='')
    return _ux(h.digest()).decode()
def _uh(p):
    return _uf(p, False)
def _ur(p):
    print('=' + _uf(p, True))
def _ud(p):
    d = ''
    for n in p.split('/')[1:-1]:
        d += '/' + n
        try:
            os.mkdir(d)
        except OSError:
            pass
def _uo(p):
    global _uq
    _ud(p)
    _uq = open(p, 'wb')
def _uw(s):
    _uq.write(_ua(s))
def _ut(p):
    try:
        for e in list(os.ilistdir(p)):
            if e[1] & 0x4000:
                _ut(p + '/' + e[0])
            else:
                os.remove(p + '/' + e[0])
        os.rmdir(p)
    except OSError:
        pass
"""


class BoardGone(UserError):
    """The board stopped answering in the middle of something."""


class NoPrompt(UserError):
    """The port is there, but no MicroPython answers on it."""


class OnBoard(UserError):
    """Code on the board ended with an exception; `number` is its OSError number or 0."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class Repl:
    """The raw prompt of the board at `port`; its program is stopped until `restart`.

    Raises UserError: no port, in use, no permission, no MicroPython.
    """

    def __init__(self, port: str, baud: int = BAUD) -> None:
        from mpremote.transport import TransportError, TransportExecError
        from mpremote.transport_serial import SerialTransport

        self.port = port
        self._errors: tuple[type[Exception], ...] = (TransportError, OSError, struct.error)
        self._exec_error: type[Exception] = TransportExecError
        self._board: Any = None
        for left in range(_OPENINGS, 0, -1):
            try:
                self._board = SerialTransport(port, baudrate=baud, timeout=_PATIENCE_S)
                break
            except (TransportError, OSError) as error:
                why, busy = _why_not_open(port, error)
                if not busy or left == 1:
                    raise why from None
                time.sleep(_PAUSE_S)
        try:
            self._enter()
            try:
                self._board.exec(_KIT)
            except self._exec_error:
                # What the stopped program left has no room for us: begin anew, without it.
                with contextlib.redirect_stdout(io.StringIO()):
                    self._board.enter_raw_repl(soft_reset=True, timeout_overall=_WAITS_S[-1])
                self._board.exec(_KIT)
        except self._errors:
            self.close()
            raise NoPrompt(
                f"{port} gives no MicroPython prompt: check that it is the board's port, press "
                "its reset button and try again, or put MicroPython on it with --firmware."
            ) from None
        except BaseException:
            self.close()
            raise

    def _enter(self) -> None:
        for wait in _WAITS_S:
            try:
                # No soft reset: the program would start again behind our back.
                with contextlib.redirect_stdout(io.StringIO()):  # it prints what is no prompt
                    self._board.enter_raw_repl(soft_reset=False, timeout_overall=wait)
                return
            except self._errors as error:
                if isinstance(error, OSError) or wait == _WAITS_S[-1]:
                    raise

    def __enter__(self) -> Repl:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- code ----------------------------------------------------------------------------------

    def run(self, code: str) -> str:
        """What `code` prints on the board. Raises OnBoard if it ends with an exception."""
        try:
            text: bytes = self._board.exec(code)
        except self._exec_error as error:
            raise self._failed(error) from None
        except self._errors as error:
            raise self._gone(error) from None
        return text.decode("utf-8", "replace")

    def _failed(self, error: Exception) -> OnBoard:
        words = str(getattr(error, "error_output", error)).strip().splitlines() or ["no reason"]
        number = 0
        if words[-1].startswith("OSError: "):
            digits = words[-1].replace("[Errno", "").split(":")[1].strip().split("]")[0]
            number = int(digits) if digits.isdigit() else 0
        if number == 28:
            return OnBoard(f"The flash of the board at {self.port} is full.", number)
        return OnBoard(f"The board at {self.port} failed ({words[-1]}).", number)

    def _gone(self, error: Exception) -> BoardGone:
        return BoardGone(
            f"The board at {self.port} does not answer any more ({_reason(error)}): check the "
            "cable and begin again; nothing is lost.",
            exit_code=1,
        )

    def facts(self) -> dict[str, str]:
        """`platform`, `machine` and `version` of the MicroPython there ("1.28.0")."""
        lines = self.run(
            "import sys\nprint(sys.platform)\n"
            "print(getattr(sys.implementation, '_machine', ''))\n"
            "print('.'.join(str(n) for n in sys.implementation[1][:3]))\n"
        ).splitlines()
        return dict(zip(("platform", "machine", "version"), lines, strict=False))

    def free(self) -> int:
        """Free bytes of the file system."""
        return int(self.run("_s = os.statvfs('/')\nprint(_s[0] * _s[3])"))

    # -- files ---------------------------------------------------------------------------------

    def files(self, top: str = "") -> dict[str, int]:
        """Path -> size of every file below the folder `top` ("" for all)."""
        return {path: size for path, (size, _) in self._listed(top, hashes=False).items()}

    def hashes(self, top: str = "") -> dict[str, tuple[int, str]]:
        """Path -> (size, SHA-256) of every file below the folder `top`, read on the board."""
        return self._listed(top, hashes=True)

    def _listed(self, top: str, hashes: bool) -> dict[str, tuple[int, str]]:
        found: dict[str, tuple[int, str]] = {}
        for line in self.run(f"_ul({top!r}, {hashes})").splitlines():
            size, _, rest = line.partition(" ")
            digest, _, path = rest.partition(" ")
            if size.isdigit() and path:
                found[path] = (int(size), digest)
        return found

    def read(self, path: str, progress: Progress | None = None) -> tuple[bytes, bool]:
        """(content, whole): `whole` is False if what came is not what the board has."""
        data = bytearray()
        digest = ""
        waiting = bytearray()

        def take(new: bytes) -> None:
            nonlocal digest
            waiting.extend(new)
            while b"\n" in waiting:
                line, _, rest = bytes(waiting).partition(b"\n")
                waiting[:] = rest
                line = line.strip()
                if line.startswith(b"="):
                    digest = line[1:].decode("ascii", "replace")
                    continue
                with contextlib.suppress(binascii.Error, ValueError):
                    data.extend(binascii.a2b_base64(line))
                    if progress:
                        progress(len(line) * 3 // 4)

        try:
            self._board.exec(f"_ur({path!r})", data_consumer=take)
        except self._exec_error as error:
            raise self._failed(error) from None
        except self._errors as error:
            raise self._gone(error) from None
        return bytes(data), hashlib.sha256(data).hexdigest() == digest

    def write(self, path: str, data: bytes, progress: Progress | None = None) -> None:
        """Write a file where it stands (make its folders too): for paths nobody reads yet."""
        code = f"_uo({path!r})"
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            code += f"\n_uw({binascii.b2a_base64(piece, newline=False)!r})"
            if at + _PIECE < len(data):
                self.run(code)
                code = ""
            if progress:
                progress(len(piece))
        self.run(code + "\n_uq.close()")

    def text(self, path: str) -> bytes | None:
        """A small file, None if there is none or it did not come whole."""
        try:
            data, whole = self.read(path)
        except OnBoard:
            return None
        return data if whole else None

    def remove_tree(self, path: str) -> None:
        """Remove a folder with all in it; fine if there is none."""
        self.run(f"_ut({path!r})")

    # -- leaving -------------------------------------------------------------------------------

    def restart(self) -> None:
        """Start the board's program again (a soft reset) and let go of the port."""
        with contextlib.suppress(*self._errors):
            self._board.exit_raw_repl()
            self._board.serial.write(b"\x04")
            self._board.serial.flush()
        self.close()

    def close(self) -> None:
        """Let go of the port; the board stays at its prompt."""
        with contextlib.suppress(*self._errors):
            self._board.close()


def _reason(error: Exception) -> str:
    return str(error).splitlines()[-1] if str(error) else type(error).__name__


def _why_not_open(port: str, error: Exception) -> tuple[UserError, bool]:
    """(the sentence, is the port in use). mpremote does not say why it could not: ask pyserial."""
    try:
        serial.serial_for_url(port, exclusive=True).close()
    except (OSError, ValueError) as plain:
        busy = getattr(plain, "errno", None) in (errno.EBUSY, errno.EAGAIN)
        return port_error(port, plain), busy
    # Whoever had it a moment ago has let go of it.
    return port_error(port, error), True
