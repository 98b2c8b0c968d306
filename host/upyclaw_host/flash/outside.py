"""Which attributes of device code may get short names: those that only our own classes have.

Owns the rule. An attribute (method, field) is ours if a class of ours defines it and no class of
Python's, MicroPython's or of other code on the board knows its name, nor does any text: then
whoever reads it reads it of an object of ours.
"""

from __future__ import annotations

import ast
import asyncio
import binascii
import builtins
import collections
import gc
import hashlib
import io
import json
import os
import random
import select
import socket
import ssl
import struct
import sys
import time
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from upyclaw_host.flash.names import bound_names, short_names

_STANDARD: tuple[types.ModuleType, ...] = (
    asyncio,
    binascii,
    builtins,
    collections,
    gc,
    hashlib,
    io,
    json,
    os,
    random,
    select,
    socket,
    ssl,
    struct,
    sys,
    time,
    types,
)
# Of MicroPython's own modules and its `network`, `machine`, `esp32`, as far as they are not names
# of Python's too.
_BOARD = """
    active authmode bssid config connect deinit disconnect duty duty_u16 fade hidden ifconfig
    init ioctl ipconfig ipoll ipv4 irq isconnected mac mode off on phy_mode probe pull rssi scan
    security ssid stations status toggle txpower value vfs readblocks writeblocks mount umount
    mem_alloc mem_free threshold ilistdir readinto tick_ms ticks_add ticks_diff ticks_ms ticks_us
    wait_closed aclose awrite drain get_extra_info buf build data description exists feed head lock
    n state string
"""


def own_attributes(
    trees: Mapping[str, ast.Module], shared: set[str], others: Iterable[str] = ()
) -> dict[str, dict[str, str]]:
    """For each module (name -> tree): public attribute -> short name.

    Attributes that one file alone uses share short names with those of other files, as private
    ones do; not in the modules `shared`, whose classes have relatives in other files. `others`:
    source texts of other code on the board; what they name stays as it is.
    """
    uses = {
        name: Counter(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        for name, tree in trees.items()
    }
    ours = {attr for tree in trees.values() for attr in _defined(tree) if attr[0] != "_"}
    ours -= _standard() | set(_BOARD.split()) | said(trees.values())
    for text in others:
        ours -= _named(ast.parse(text))
    files: dict[str, set[str]] = {attr: set() for attr in ours}
    for name, tree in trees.items():
        for attr in ours & (set(uses[name]) | set(_defined(tree))):
            files[attr].add(name)
    taken = {attr for count in uses.values() for attr in count if attr[0] == "_"}
    out: dict[str, dict[str, str]] = {}
    for name, count in uses.items():
        alone = [attr for attr in ours if files[attr] == {name} and name not in shared]
        out[name] = _mapping(alone, count, {attr for attr in count if attr[0] == "_"})
        taken |= set(out[name].values())
    known = {attr for mapping in out.values() for attr in mapping}
    # A short name of one file's own could meet these in one object.
    common = _mapping(ours - known, sum(uses.values(), Counter()), taken)
    return {name: {**common, **mapping} for name, mapping in out.items()}


def _mapping(attrs: Iterable[str], uses: Counter[str], taken: set[str]) -> dict[str, str]:
    order = sorted(attrs, key=lambda attr: (-uses[attr], attr))
    free = (name for name in short_names() if name not in taken)
    return dict(zip(order, islice(free, len(order)), strict=True))


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from bound_names(node)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


def said(trees: Iterable[ast.Module]) -> set[str]:
    """Texts (`getattr` takes one) and names of keyword arguments."""
    out = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                out.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg:
                out.add(node.arg)
    return out


def _named(tree: ast.Module) -> set[str]:
    """Every name in other code."""
    out = said([tree])
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                out.add(name)
    return out


def _standard() -> set[str]:
    out: set[str] = set()
    for module in _STANDARD:
        for name, value in vars(module).items():
            out.add(name)
            if isinstance(value, type):
                out |= set(dir(value))
    return out


class AttributeRenamer(ast.NodeTransformer):
    """Puts the short names in place. `modules`: names of the file that stand for modules."""

    def __init__(self, mapping: dict[str, str], modules: Iterable[str]) -> None:
        self.mapping = mapping
        self.modules = set(modules)

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        if not (isinstance(node.value, ast.Name) and node.value.id in self.modules):
            node.attr = self.mapping.get(node.attr, node.attr)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        members = bound_names(node)
        self.generic_visit(node)
        for child in node.body:
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                child.name = self.mapping.get(child.name, child.name)
                # Decorators such as `@name.setter`, defaults: read in the class's scope.
                scope: list[ast.AST] = [*child.decorator_list, *child.args.defaults]
            else:
                scope = [child]
            for part in scope:
                for inner in ast.walk(part):
                    if isinstance(inner, ast.Name) and inner.id in members:
                        inner.id = self.mapping.get(inner.id, inner.id)
        return node
