"""The modules of the device package: which of them share a file on the board, what names mean.

Owns the reading of imports, the grouping into units and the rules that make joining safe. Works on
syntax trees; renames nothing (join.py does).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from upyclaw_host.errors import UserError
from upyclaw_host.flash.names import bound_names, has_private
from upyclaw_host.flash.scan import (
    constants,
    fold_private,
    on_board,
    part_local_imports,
    top,
    top_imports,
)
from upyclaw_host.flash.shorten import shorten


@dataclass
class Module:
    """One source file. `unit`: the module in whose file its code ends up."""

    name: str
    tree: ast.Module
    package: bool
    bound: set[str]
    unit: str = ""
    own: set[str] = field(default_factory=set)  # global names it defines itself
    foreign: set[str] = field(default_factory=set)  # global names from outside the package
    symbols: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (module, name)
    modules: dict[str, str] = field(default_factory=dict)  # name -> module it stands for
    constants: dict[str, int | bool] = field(default_factory=dict)
    escapes: bool = False  # used as an object: its names must stay as they are


class Package:
    """The modules of `sources` (module name -> source, `a.b.__init__` for packages), grouped.

    What `entry` imports at its top goes into its unit; so does, for any other module, what it
    alone imports. `order`: each module after those that it needs. Raises UserError.
    """

    def __init__(self, sources: Mapping[str, str], entry: str) -> None:
        self.modules: dict[str, Module] = {}
        for key, text in sources.items():
            tree = part_local_imports(fold_private(on_board(ast.parse(text, key))), key)
            tree = ast.parse(shorten(ast.unparse(tree), key), key)
            package = key.endswith(".__init__")
            name = key.removesuffix(".__init__")
            self.modules[name] = Module(name, tree, package, bound_names(tree), name)
        self.order: list[str] = []
        self._visit(entry, ())
        core = list(self.order)
        # The package itself stays what it is: whoever looks at a board finds its version there.
        root = entry.partition(".")[0]
        core.remove(root)
        self.modules[root].escapes = True
        for name in core:
            self.modules[name].unit = entry
        for name in self.modules:
            self._visit(name, (), strict=False)
        for module in self.modules.values():
            self._collect(module)
        self._check_escapes()
        self._attach()

    def units(self) -> dict[str, list[Module]]:
        """Unit -> its modules, in order."""
        units: dict[str, list[Module]] = {}
        for name in self.order:
            units.setdefault(self.modules[name].unit, []).append(self.modules[name])
        return units

    # Which modules belong together

    def _visit(self, name: str, path: tuple[str, ...], strict: bool = True) -> None:
        """Put `name` into the order after all that it imports at its top, packages first."""
        parent = name.rpartition(".")[0]
        if parent and parent not in path:
            self._visit(parent, path, strict)
        if name in self.order:
            return
        if name in path:
            if not strict:
                return
            raise UserError(f"{' -> '.join((*path, name))} import each other at their top.")
        module = self.modules[name]
        for node in top(module.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for target in self._targets(module, node):
                    if target not in path or not self.modules[target].package:
                        self._visit(target, (*path, name), strict)
        self.order.append(name)

    def _attach(self) -> None:
        """Let modules that only one unit needs, and as soon as it is loaded, be part of it."""
        users: dict[str, set[str]] = {}
        alone = set()
        for module in self.modules.values():
            at_top = {id(node) for node in top(module.tree)}
            for node in ast.walk(module.tree):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    for target in self._targets(module, node):
                        if id(node) in at_top:
                            users.setdefault(target, set()).add(module.name)
                        else:
                            alone.add(target)
                elif isinstance(node, ast.Global):
                    # What it keeps has to outlive the other's unloading.
                    alone.add(module.name)
        for name in reversed(self.order):
            module = self.modules[name]
            units = {self.modules[user].unit for user in users.get(name, ())}
            if len(units) == 1 and name not in alone and not (module.package or module.escapes):
                module.unit = units.pop()

    def _targets(self, module: Module, node: ast.Import | ast.ImportFrom) -> list[str]:
        """The modules of this package that an import reads."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names if alias.name in self.modules]
        base = self.base(module, node)
        if base not in self.modules:
            return []
        found = []
        for alias in node.names:
            if not self.is_ours(base, alias.name):
                continue
            inner = f"{base}.{alias.name}"
            found.append(inner if self.is_module(base, alias.name) else base)
        return list(dict.fromkeys(found))

    def is_module(self, base: str, name: str) -> bool:
        # A package's own name wins over a module of the same name, as it does at run time.
        return f"{base}.{name}" in self.modules and name not in self.modules[base].bound

    def is_ours(self, base: str, name: str) -> bool:
        """False for what others put into our packages when the firmware is built."""
        module = self.modules.get(base)
        if module is None or not module.package or self.is_module(base, name):
            return module is not None
        return name in module.bound

    def base(self, module: Module, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.name.split(".")
        if module.package:
            parts.append("")
        parts = parts[: len(parts) - node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])

    # What names mean

    def _collect(self, module: Module) -> None:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                base = self.base(module, node)
                for alias in node.names:
                    if alias.name == "*":
                        raise UserError(f"{module.name} imports everything from {base}.")
                    name = alias.asname or alias.name
                    if not self.is_ours(base, alias.name):
                        continue
                    if self.is_module(base, alias.name):
                        self._mean(module, module.modules, name, f"{base}.{alias.name}")
                    else:
                        self._mean(module, module.symbols, name, (base, alias.name))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in self.modules:
                        raise UserError(
                            f"{module.name} has `import {alias.name}`; "
                            "inside the package use `from ... import`."
                        )
        imported = set(module.symbols) | set(module.modules)
        module.foreign = top_imports(module.tree) - imported
        module.own = module.bound - imported - module.foreign
        module.constants = constants(module.tree)
        for name in imported & bound_names(module.tree, imports=False):
            raise UserError(f"{module.name}: {name} is imported and also set.")

    def _mean(self, module: Module, table: dict, name: str, what: object) -> None:  # type: ignore[type-arg]
        other = module.modules if table is module.symbols else module.symbols
        if table.setdefault(name, what) != what or name in other:
            raise UserError(f"{module.name}: {name} is imported from two places.")

    def resolve(self, name: str, symbol: str) -> tuple[str, str]:
        """(module, name) where `symbol` of module `name` is really defined.

        A name that is nowhere stays as it is: the import fails on the board as it would on the PC.
        """
        module = self.modules[name]
        for _ in range(10):
            if symbol in module.own or symbol in module.foreign:
                return module.name, symbol
            if symbol not in module.symbols:
                break
            target, symbol = module.symbols[symbol]
            module = self.modules[target]
        return module.name, symbol

    def _check_escapes(self) -> None:
        """Find modules that are used as objects, not by their names only."""
        for module in self.modules.values():
            bases = {
                id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)
            }
            for node in ast.walk(module.tree):
                if (
                    isinstance(node, ast.Name)
                    and node.id in module.modules
                    and id(node) not in bases
                    and not isinstance(node.ctx, ast.Del)
                ):
                    target = self.modules[module.modules[node.id]]
                    if target.unit != target.name or not isinstance(node.ctx, ast.Load):
                        raise UserError(f"{module.name} hands {target.name} on as an object.")
                    target.escapes = True

    def related(self) -> set[str]:
        """Modules with a class made of another file's class, and those others.

        Both must not have private attributes: shortened file by file, two may have got one name.
        """
        out = set()
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                for base in getattr(node, "bases", ()):
                    name, _, symbol = ast.unparse(base).partition(".")
                    if name in module.symbols:
                        target, symbol = self.resolve(*module.symbols[name])
                    elif name in module.modules:
                        target, symbol = self.resolve(module.modules[name], symbol)
                    else:
                        continue
                    out |= {module.name, target}
                    for other in self.modules[target].tree.body:
                        same = getattr(other, "name", "") == symbol
                        if same and has_private(other) and has_private(node):
                            raise UserError(
                                f"{module.name}: {name} and the class made of it both have "
                                "private names; give those of one of them no underscore."
                            )
        return out
