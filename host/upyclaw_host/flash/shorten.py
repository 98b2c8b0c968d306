"""Shortens the private names of device code before it is compiled, to spare the board's heap.

Every name in a `.mpy` becomes a string in RAM. A private name (`_like_this`) belongs to one file,
so each file may use the same few short ones; measured, that is 9 KB less heap of 139 KB in the
simulated board (64-bit words). Owns the renaming and the check that it is safe; touches no file.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from upyclaw_host.errors import UserError
from upyclaw_host.flash.names import short_names

_PRIVATE = re.compile(r"_[A-Za-z]\w*(?<!__)")
# Where a syntax tree keeps names.
_FIELDS = ("id", "attr", "name", "arg")


def shorten(source: str, filename: str) -> str:
    """`source` with its private names shortened. Raises UserError if one is not its own."""
    try:
        tree = ast.parse(source, filename)
    except SyntaxError as error:
        raise UserError(f"{filename} does not compile: {error}.") from None
    used: Counter[str] = Counter()
    defined: set[str] = set()
    modules = _imported(tree)
    for node, field, name in _names(tree):
        used[name] += 1
        if _defines(node, field, modules):
            defined.add(name)
    foreign = sorted(set(used) - defined)
    if foreign:
        raise UserError(
            f"{filename} uses {', '.join(foreign)} of another file: private names are shortened "
            "file by file, so what others use must not begin with an underscore."
        )
    # `_NAME = const(...)` is folded by the compiler and takes no string.
    kept = {name for name in used if name.isupper() and _is_const(tree, name)}
    order = [name for name, _ in used.most_common() if name not in kept]
    taken = {name for _, _, name in _names(tree)}
    short = (name for name in short_names() if name not in taken)
    mapping = dict(zip(order, short, strict=False))
    for node, field, name in list(_names(tree)):
        setattr(node, field, mapping.get(name, name))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [mapping.get(name, name) for name in node.names]
    return ast.unparse(tree)


def _names(tree: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            # Modules and what they export keep their names.
            continue
        for field in _FIELDS:
            name = getattr(node, field, None)
            if isinstance(name, str) and _PRIVATE.fullmatch(name):
                yield node, field, name


def _imported(tree: ast.AST) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def _defines(node: ast.AST, field: str, modules: set[str]) -> bool:
    if field in ("name", "arg"):
        return not isinstance(node, ast.keyword)
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in modules:
        # Setting a name in another module does not make it this file's own.
        return False
    return isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _is_const(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "const"
        for node in tree.body
    )
