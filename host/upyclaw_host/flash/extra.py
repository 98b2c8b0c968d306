"""Code of others that the firmware needs on the board, taken from what is installed on the PC.

Owns the one list of it. On the board it lies beside our own modules, compiled as they are. Parts
that we never call are left out (by name, and a name that is not there any more is an error), since
every function costs heap. Touches no file of the packages.
"""

from __future__ import annotations

import ast
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from upyclaw_host.errors import UserError


@dataclass(frozen=True)
class Extra:
    """Module `source` of an installed `distribution`, to be `target` below /upyclaw on the board.

    `unused`: functions and classes that are left out, methods as `Class.method`.
    """

    distribution: str
    source: str
    target: str
    unused: tuple[str, ...] = ()

    def path(self) -> Path:
        """The module's file on this PC. Raises UserError if it is not installed."""
        try:
            files = importlib.metadata.files(self.distribution) or []
        except importlib.metadata.PackageNotFoundError:
            files = []
        for file in files:
            if file.as_posix() == self.source:
                return Path(str(file.locate()))
        raise UserError(
            f"The Python package {self.distribution} is not installed; the board's page needs it: "
            f"pip install {self.distribution}."
        )

    def text(self) -> str:
        """The module's source without what is not used."""
        tree = ast.parse(self.path().read_text("utf-8"))
        left = set(self.unused)
        _leave_out(tree, "", left)
        if left:
            raise UserError(
                f"{self.distribution} {importlib.metadata.version(self.distribution)} has no "
                f"{', '.join(sorted(left))}; bring the list in flash/extra.py up to date."
            )
        return ast.unparse(tree)


def _leave_out(node: ast.Module | ast.ClassDef, prefix: str, names: set[str]) -> None:
    kept: list[ast.stmt] = []
    found: set[str] = set()
    for statement in node.body:
        name = prefix + _name(statement)
        if name in names:
            found.add(name)
            continue
        if isinstance(statement, ast.ClassDef):
            _leave_out(statement, name + ".", names)
        kept.append(statement)
    names -= found
    node.body = kept or [ast.Pass()]


def _name(statement: ast.stmt) -> str:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


# MIT licence. Core only: we serve five files and hand one path over to our own WebSocket.
_MICRODOT_UNUSED = (
    "urlencode",
    "AsyncBytesIO",
    "redirect",
    "send_file",
    *(f"NoCaseDict.{name}" for name in ("__delitem__", "update")),
    "MultiDict.getlist",
    *(f"Request.{name}" for name in ("body", "stream", "json", "form", "files", "after_request")),
    *(f"Response.{name}" for name in ("set_cookie", "delete_cookie", "redirect", "send_file")),
    "Response.types_map",
    *(f"URLPattern.{name}" for name in ("register_type", "__repr__")),
    "HTTPException.__repr__",
    *(f"Microdot.{name}" for name in ("post", "put", "patch", "delete", "mount", "errorhandler")),
    *(f"Microdot.{name}" for name in ("before_request", "after_request", "after_error_request")),
    *(f"Microdot.{name}" for name in ("start_server", "run", "shutdown")),
)

EXTRA_PACKAGES = (Extra("microdot", "microdot/microdot.py", "web/microdot.py", _MICRODOT_UNUSED),)
