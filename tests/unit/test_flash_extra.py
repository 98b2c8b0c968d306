"""Code of others on the board: what is left out, and the page's files beside it."""

from __future__ import annotations

import ast
import dataclasses
import gzip

import pytest

from upyclaw_host import resources
from upyclaw_host.errors import UserError
from upyclaw_host.flash.extra import EXTRA_PACKAGES, Extra
from upyclaw_host.flash.firmware import firmware_files

(MICRODOT,) = EXTRA_PACKAGES


def names(text: str) -> set[str]:
    """Functions and classes, methods as `Class.method`."""
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
            }
    return found


def test_only_what_is_not_used_is_left_out() -> None:
    whole = names(MICRODOT.path().read_text("utf-8"))
    kept = names(MICRODOT.text())
    gone = {name for name in whole - kept if name.partition(".")[0] not in MICRODOT.unused}
    assert gone == {name for name in MICRODOT.unused if "." in name} & whole
    assert kept <= whole
    for name in ("Microdot.get", "Microdot.handle_request", "Request.create", "Response.write"):
        assert name in kept


def test_a_list_that_is_out_of_date_is_an_error() -> None:
    stale = dataclasses.replace(MICRODOT, unused=(*MICRODOT.unused, "Microdot.teleport"))
    with pytest.raises(UserError, match=r"microdot .* has no Microdot\.teleport"):
        stale.text()


def test_package_that_is_not_installed() -> None:
    with pytest.raises(UserError, match="pip install no-such-thing"):
        Extra("no-such-thing", "no/such.py", "web/x.py").path()
    with pytest.raises(UserError, match="microdot is not installed"):
        dataclasses.replace(MICRODOT, source="microdot/gone.py").path()


def test_page_lies_compressed_on_the_board() -> None:
    files = firmware_files()
    static = resources.device_package() / "web" / "static"
    packed = {path: data for path, data in files.items() if "/web/static/" in path}
    assert sorted(packed) == [f"/upyclaw/web/static/{p.name}.gz" for p in sorted(static.iterdir())]
    for path in static.iterdir():
        data = packed[f"/upyclaw/web/static/{path.name}.gz"]
        assert gzip.decompress(data) == path.read_bytes()
    assert sum(map(len, packed.values())) < 40_000
    assert packed == {path: data for path, data in firmware_files().items() if path in packed}
    assert len(files["/upyclaw/web/microdot.mpy"]) < 9_000
