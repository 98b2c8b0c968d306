"""A live board as a SOURCE: its files over the serial port.

Owns: pulling files again that came short, and telling those that stay so (B60). Reads only; the
board's program stops while its files are read and starts again at the end.
"""

from __future__ import annotations

from upyclaw_host.formats.findings import Finding, Severity
from upyclaw_host.repl import OnBoard, Repl

_TRIES = 3
_FOLDER = "/data"


class PortSource:
    """Files of the board at a port."""

    live = True

    def __init__(self, port: str) -> None:
        self.label = port
        self.findings: list[Finding] = []
        self._files: dict[str, int] | None = None
        self._repl = Repl(port)

    def files(self) -> dict[str, int]:
        """Files below `/data`, asked once."""
        if self._files is None:
            found = self._repl.files(_FOLDER)
            self._files = {path.lstrip("/"): size for path, size in found.items()}
        return self._files

    def read(self, path: str) -> bytes:
        """Content of a file, pulled up to three times until its SHA-256 is the board's."""
        data = b""
        for _ in range(_TRIES):
            data, whole = self._repl.read("/" + path)
            if whole:
                return data
        text = f"short copy: {_TRIES} times {len(data)} bytes came that are not the board's"
        self.findings.append(Finding(path, len(data), "short-copy", text, Severity.ERROR))
        return data

    def optional(self, path: str) -> bytes | None:
        """Content of a file, also one above `/data`; None if there is none."""
        try:
            return self.read(path)
        except OnBoard:
            return None

    def room(self) -> tuple[int, int]:
        """Free and all bytes, as the board's file system tells them."""
        told = self._repl.run("import os\nprint(*os.statvfs('/')[:4])").split()
        block, _, blocks, free = (int(word) for word in told)
        return free * block, blocks * block

    def close(self) -> None:
        """Start the board's program again and let go of the port."""
        self._repl.restart()
