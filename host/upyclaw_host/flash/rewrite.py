"""Writes one module of device code anew, with the names that join.py chose; on syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from upyclaw_host.errors import UserError
from upyclaw_host.flash.names import bound_names


class Rewriter(ast.NodeTransformer):
    """Puts the new names of module `label` in place.

    `names`: old global name -> new name or number. `aliases`: names that stand for modules.
    `attribute(alias, attr)`: what that becomes, an expression or the new attribute.
    `imports(node)`: what an import becomes.
    """

    def __init__(
        self,
        label: str,
        names: Mapping[str, str | int | bool],
        aliases: set[str],
        attribute: Callable[[str, str], ast.expr | str],
        imports: Callable[[ast.ImportFrom], list[ast.stmt]],
    ) -> None:
        self.label = label
        self.names = names
        self.aliases = aliases
        self.attribute = attribute
        self.imports = imports
        self.in_class: set[str] = set()

    def _new(self, name: str) -> str:
        new = self.names.get(name, name)
        if not isinstance(new, str):
            raise UserError(f"{self.label}: {name} is a constant and also set.")
        return new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.in_class:
            return node
        new = self.names.get(node.id, node.id)
        if not isinstance(new, str) and isinstance(node.ctx, ast.Load):
            return ast.Constant(new)
        return ast.Name(self._new(node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in self.aliases:
            if not isinstance(node.ctx, ast.Load):
                raise UserError(f"{self.label} sets {node.attr} in another module.")
            new = self.attribute(node.value.id, node.attr)
            if isinstance(new, ast.expr):
                return new
            return ast.Attribute(self.visit(node.value), new, node.ctx)
        self.generic_visit(node)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        return self.imports(node) or ast.Pass()

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and not self.in_class:
            constant = not isinstance(self.names.get(target.id, ""), str)
            if constant or target.id == "__all__":
                return None
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.bases = [self.visit(base) for base in node.bases]
        outer = self.in_class
        self.in_class = bound_names(node)
        node.body = [self.visit(child) for child in node.body]
        self.in_class = outer
        if not outer:
            node.name = self._new(node.name)
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        node.args.defaults = [self.visit(item) for item in node.args.defaults]
        node.returns = None
        if node.name not in self.in_class:
            node.name = self._new(node.name)
        outer = self.in_class
        self.in_class = set()
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg):
                arg.annotation = None
                arg.arg = self._new(arg.arg)
        body: list[ast.stmt] = []
        for child in node.body:
            new = self.visit(child)
            body += new if isinstance(new, list) else [new] if new else []
        node.body = body
        self.in_class = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        outer = self.in_class
        self.in_class = set()
        for arg in node.args.args:
            arg.arg = self._new(arg.arg)
        self.generic_visit(node)
        self.in_class = outer
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        if node.name:
            node.name = self._new(node.name)
        self.generic_visit(node)
        return node

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self._new(name) for name in node.names]
        return node
