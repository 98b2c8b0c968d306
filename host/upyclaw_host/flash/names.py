"""Names in device code: who binds which, and short ones for globals and arguments.

Owns what join.py and shorten.py need to know of Python's scopes. Works on syntax trees.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.GeneratorExp, ast.ListComp, ast.DictComp, ast.SetComp)


def short_names() -> Iterator[str]:
    """`_a` .. `_z`, then `_aa` .. `_zz`."""
    yield from ("_" + a for a in _ALPHABET)
    yield from ("_" + a + b for a in _ALPHABET for b in _ALPHABET)


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module's, class's or function's own scope: nested ones are yielded, not
    entered."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, _FUNCTIONS):
            todo += [*node.args.defaults, *getattr(node, "decorator_list", ())]
        elif isinstance(node, ast.ClassDef):
            todo += [*node.bases, *node.decorator_list]
        else:
            # A comprehension's variables are its own, but no global name is bound in one either.
            todo += ast.iter_child_nodes(node)


def bound_names(scope: ast.AST, *, imports: bool = True) -> set[str]:
    """Names that `scope` (module or class) itself binds, and those its functions bind with
    `global`."""
    out = set()
    for node in inside(scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            out.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(node.name)
        elif isinstance(node, ast.ExceptHandler):
            out |= {node.name} if node.name else set()
        elif imports and isinstance(node, (ast.Import, ast.ImportFrom)):
            out |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(scope, ast.Module):
        for node in ast.walk(scope):
            if isinstance(node, ast.Global):
                out |= set(node.names)
    return out


def scopes_in(tree: ast.AST, kind: type[ast.AST]) -> Iterator[set[str]]:
    """For each scope of `kind` the names that it reads itself."""
    for scope in ast.walk(tree):
        if isinstance(scope, kind):
            yield {
                node.id
                for node in inside(scope)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            }


def has_private(tree: ast.AST) -> bool:
    """True if a private attribute of `self` is set or a private member defined in class `tree`."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr[0] == "_"
        and ast.unparse(node.value) == "self"
        for node in ast.walk(tree)
    ) or any(
        name[0] == "_" and not name.endswith("__")
        for name in (bound_names(tree) if isinstance(tree, ast.ClassDef) else ())
    )


def arguments(tree: ast.AST, keep: set[str]) -> None:
    """Give the arguments of every function the same few names, except those in `keep`."""
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            _rename_arguments(node, keep)


def _rename_arguments(function: ast.AST, keep: set[str]) -> None:
    args = function.args  # type: ignore[attr-defined]
    # Defaults are read outside, by the names there.
    body = function.body  # type: ignore[attr-defined]
    parts = body if isinstance(body, list) else [body]
    inner = [node for part in parts for node in ast.walk(part)]
    rebound: set[str] = set()
    for node in inner:
        if isinstance(node, _FUNCTIONS):
            rebound |= {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        elif isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.DictComp, ast.SetComp)):
            rebound |= {
                name.id
                for name in ast.walk(node)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            rebound |= set(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            rebound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            rebound.add(node.name)
    used = {node.id for node in inner if isinstance(node, ast.Name)} | rebound
    used |= {arg.arg for arg in ast.walk(args) if isinstance(arg, ast.arg)}
    free = (name for name in short_names() if name not in used)
    mapping = {
        arg.arg: next(free)
        for arg in args.args
        if arg.arg not in keep and arg.arg not in rebound and arg.arg != "self"
    }
    for arg in args.args:
        arg.arg = mapping.get(arg.arg, arg.arg)
    for node in inner:
        if isinstance(node, ast.Name):
            node.id = mapping.get(node.id, node.id)
