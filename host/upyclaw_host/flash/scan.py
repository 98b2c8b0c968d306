"""What join.py wants to know of a module's top: its imports, exceptions and constants.

Works on syntax trees; see names.py for scopes.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator

from upyclaw_host.errors import UserError
from upyclaw_host.flash.names import inside


def top(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes that run when the module is imported."""
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            todo = list(ast.iter_child_nodes(node)) + todo


def top_imports(tree: ast.Module) -> set[str]:
    """Global names that imports bind."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in top(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def exceptions(trees: Iterable[ast.Module]) -> set[str]:
    """Names of all exception classes: messages and logs show them."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    while new := {name for name, above in bases.items() if above & found} - found:
        found |= new
    return found


def once(nodes: Iterator[ast.stmt]) -> list[ast.stmt]:
    """The statements without docstrings, `pass` and imports that came before."""
    seen: set[str] = set()
    out = []
    for node in nodes:
        if isinstance(node, ast.Pass):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            text = ast.unparse(node)
            if text in seen:
                continue
            seen.add(text)
        out.append(node)
    return out


def constants(tree: ast.Module) -> dict[str, int | bool]:
    """Upper-case global names that are bound once, to a whole number."""
    values: dict[str, int | bool] = {}
    bindings = _bindings(tree)
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Name) or not target.id.isupper():
            continue
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "const":
            value = value.args[0]
        try:
            found = ast.literal_eval(value)
        except ValueError:
            continue
        if isinstance(found, int) and bindings[target.id] == 1:
            values[target.id] = found
    return values


def _bindings(tree: ast.Module) -> Counter[str]:
    """How often each name is bound, anywhere in the file."""
    count: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            count[node.id] += not isinstance(node.ctx, ast.Load)
        elif isinstance(node, ast.arg):
            count[node.arg] += 1
        elif isinstance(node, ast.Global):
            count.update(node.names)
    return count


class _OnBoard(ast.NodeTransformer):
    """Decides `if MICROPYTHON`."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if ast.unparse(node) == "sys.implementation.name == 'micropython'":
            return ast.Constant(True)
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Name) and node.test.id == "MICROPYTHON":
            return node.body
        return node


def on_board(tree: ast.Module) -> ast.Module:
    new: ast.Module = _OnBoard().visit(tree)
    return new


class _Fold(ast.NodeTransformer):
    def __init__(self, values: dict[str, int | bool]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.values and isinstance(node.ctx, ast.Load):
            return ast.Constant(self.values[node.id])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in self.values:
            return None
        self.generic_visit(node)
        return node


def fold_private(tree: ast.Module) -> ast.Module:
    """Put private constants where they are used; their names are gone then."""
    private = {name: value for name, value in constants(tree).items() if name[0] == "_"}
    new: ast.Module = _Fold(private).visit(tree)
    return ast.fix_missing_locations(new)


def part_local_imports(tree: ast.Module, label: str) -> ast.Module:
    """Give each import inside a function a name that is used nowhere else in the file."""
    count = 0
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in list(inside(function)):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                count += 1
                old = alias.asname or alias.name
                alias.asname = f"{old}__{count}"
                for inner in ast.walk(function):
                    if isinstance(inner, ast.Name) and inner.id == old:
                        inner.id = alias.asname
                    elif isinstance(inner, ast.arg) and inner.arg == old:
                        raise UserError(f"{label}: {old} is an import and an argument.")
    return tree
