"""Joins the device code that is always loaded into one file, and shortens what others may name.

Every module takes heap on the board for its namespace, its imports, its file name and its own copy
of each constant; every global name and argument name takes a string. So what `upyclaw.app` imports
at its top becomes one file, `upyclaw/app.mpy`; modules that are loaded when they are needed keep
files of their own. Whole numbers in upper-case names are put where they are used. Measured in the
simulated board (64-bit words): see docs/development.md.

Owns the joining and the checks that it is safe. Works on texts; touches no file. The code must
play by a few rules, each refused with a sentence if broken: no `import *`, nobody sets a name in
another module, a name means one thing in its file, no circular imports at the top.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from upyclaw_host.errors import UserError
from upyclaw_host.flash.names import (
    arguments,
    bound_names,
    has_private,
    scopes_in,
    short_names,
)
from upyclaw_host.flash.outside import AttributeRenamer, own_attributes, said
from upyclaw_host.flash.rewrite import Rewriter
from upyclaw_host.flash.scan import (
    constants,
    exceptions,
    fold_private,
    on_board,
    once,
    part_local_imports,
    top,
    top_imports,
)
from upyclaw_host.flash.shorten import shorten

_KEPT = {"main", "start_failed", "const"}  # main.py calls the first two, the compiler the last


@dataclass
class _Module:
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


def join(sources: Mapping[str, str], entry: str, others: Iterable[str] = ()) -> dict[str, str]:
    """Module name -> source for the board, from module name -> source (`a.b.__init__` for
    packages). `entry` stands for everything it imports at its top; so does each module that is
    imported inside a function, for what nobody else imports. `others`: texts of other code that
    uses our objects. Raises UserError."""
    if entry not in sources:
        return {name: shorten(text, name) for name, text in sources.items()}
    return _Join(sources, entry, others).result()


class _Join:
    def __init__(self, sources: Mapping[str, str], entry: str, others: Iterable[str]) -> None:
        self.modules: dict[str, _Module] = {}
        for key, text in sources.items():
            tree = part_local_imports(fold_private(on_board(ast.parse(text, key))), key)
            tree = ast.parse(shorten(ast.unparse(tree), key), key)
            package = key.endswith(".__init__")
            name = key.removesuffix(".__init__")
            self.modules[name] = _Module(name, tree, package, bound_names(tree), name)
        self.entry = entry
        self.exceptions = exceptions(module.tree for module in self.modules.values())
        self.said = said(module.tree for module in self.modules.values())
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
        trees = {module.name: module.tree for module in self.modules.values()}
        mappings = own_attributes(trees, self._related(), others)
        for module in self.modules.values():
            renamer = AttributeRenamer(mappings[module.name], module.modules)
            module.tree = renamer.visit(module.tree)
        self.short: dict[tuple[str, str], str] = {}
        for unit in {module.unit for module in self.modules.values()}:
            self._name_globals(unit)

    def result(self) -> dict[str, str]:
        out = {}
        for module in self.modules.values():
            self._rewrite(module)
        for module in self.modules.values():
            if module.unit != module.name:
                continue
            members = [self.modules[name] for name in self.order]
            body = once(
                node for one in members if one.unit == module.name for node in one.tree.body
            )
            tree = ast.Module(body, [])
            arguments(tree, self.said)
            key = module.name + ".__init__" if module.package else module.name
            out[key] = ast.unparse(ast.fix_missing_locations(tree))
        return out

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

    def _targets(self, module: _Module, node: ast.Import | ast.ImportFrom) -> list[str]:
        """The modules of this package that an import reads."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names if alias.name in self.modules]
        base = self._base(module, node)
        if base not in self.modules:
            return []
        found = []
        for alias in node.names:
            if not self._is_ours(base, alias.name):
                continue
            inner = f"{base}.{alias.name}"
            found.append(inner if self._is_module(base, alias.name) else base)
        return list(dict.fromkeys(found))

    def _is_module(self, base: str, name: str) -> bool:
        # A package's own name wins over a module of the same name, as it does at run time.
        return f"{base}.{name}" in self.modules and name not in self.modules[base].bound

    def _is_ours(self, base: str, name: str) -> bool:
        """False for what others put into our packages when the firmware is built."""
        module = self.modules.get(base)
        if module is None or not module.package or self._is_module(base, name):
            return module is not None
        return name in module.bound

    def _base(self, module: _Module, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.name.split(".")
        if module.package:
            parts.append("")
        parts = parts[: len(parts) - node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])

    # What names mean

    def _collect(self, module: _Module) -> None:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                base = self._base(module, node)
                for alias in node.names:
                    if alias.name == "*":
                        raise UserError(f"{module.name} imports everything from {base}.")
                    name = alias.asname or alias.name
                    if not self._is_ours(base, alias.name):
                        continue
                    if self._is_module(base, alias.name):
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

    def _mean(self, module: _Module, table: dict, name: str, what: object) -> None:  # type: ignore[type-arg]
        other = module.modules if table is module.symbols else module.symbols
        if table.setdefault(name, what) != what or name in other:
            raise UserError(f"{module.name}: {name} is imported from two places.")

    def _resolve(self, name: str, symbol: str) -> tuple[str, str]:
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

    def _related(self) -> set[str]:
        """Modules with a class made of another file's class, and those others.

        Both must not have private attributes: shortened file by file, two may have got one name.
        """
        out = set()
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                for base in getattr(node, "bases", ()):
                    name, _, symbol = ast.unparse(base).partition(".")
                    if name in module.symbols:
                        target, symbol = self._resolve(*module.symbols[name])
                    elif name in module.modules:
                        target, symbol = self._resolve(module.modules[name], symbol)
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

    # Short names

    def _name_globals(self, unit: str) -> None:
        members = [module for module in self.modules.values() if module.unit == unit]
        wanted: list[tuple[str, str]] = []
        in_class: set[tuple[str, str]] = set()
        taken = set().union(*(module.foreign for module in members))
        for module in members:
            self.short.update({(module.name, name): name for name in module.foreign})
            kept = module.own if module.escapes else _KEPT | self.exceptions
            for name in sorted(module.own - set(module.constants)):
                if name in kept and (name not in taken or name in _KEPT):
                    taken.add(name)
                    self.short[module.name, name] = name
                else:
                    wanted.append((module.name, name))
            for node in scopes_in(module.tree, ast.ClassDef):
                in_class |= {(module.name, name) for name in node}
            if unit != self.entry:
                wanted += [(module.name, name) for name in sorted(self._top_aliases(module))]
        plain = (name for name in short_names() if name not in taken)
        upper = (name.upper() for name in short_names())
        for key in wanted:
            self.short[key] = next(upper) if key in in_class else next(plain)

    def _top_aliases(self, module: _Module) -> set[str]:
        """Names that stand for something of another file in all of `module`."""
        return {
            name
            for name in top_imports(module.tree) & (set(module.symbols) | set(module.modules))
            if self._is_elsewhere(module, name)
        }

    def _is_elsewhere(self, module: _Module, name: str) -> bool:
        if name in module.modules:
            return self.modules[module.modules[name]].unit != module.unit
        key = self._resolve(*module.symbols[name])
        return self._constant(key) is None and self.modules[key[0]].unit != module.unit

    def _short(self, key: tuple[str, str]) -> str:
        return self.short.get(key, key[1])

    def _constant(self, key: tuple[str, str]) -> int | bool | None:
        return self.modules[key[0]].constants.get(key[1])

    # The new text

    def _rewrite(self, module: _Module) -> None:
        names: dict[str, str | int | bool] = {}
        for name in module.own:
            constant = module.constants.get(name)
            names[name] = self.short[module.name, name] if constant is None else constant
        for name, (target, symbol) in module.symbols.items():
            key = self._resolve(target, symbol)
            constant = self._constant(key)
            if constant is not None:
                names[name] = constant
            elif self.modules[key[0]].unit == module.unit:
                names[name] = self._short(key)
        for name in self._top_aliases(module):
            names.setdefault(name, self.short.get((module.name, name), name))
        module.tree = Rewriter(
            module.name,
            names,
            set(module.modules),
            lambda alias, attr: self._attribute(module, alias, attr),
            lambda node: self._imports(module, node, names),
        ).visit(module.tree)

    def _attribute(self, module: _Module, alias: str, attr: str) -> ast.expr | str:
        """What `alias.attr` becomes: an expression, or the attribute's new name."""
        target = module.modules[alias]
        key = self._resolve(target, attr)
        constant = self._constant(key)
        if constant is not None:
            return ast.Constant(constant)
        if self.modules[key[0]].unit == module.unit:
            return ast.Name(self._short(key), ast.Load())
        if self.modules[key[0]].unit != self.modules[target].unit:
            raise UserError(f"{module.name} reads {alias}.{attr}, which is {key[0]}'s.")
        return self._short(key)

    def _imports(
        self, module: _Module, node: ast.ImportFrom, names: Mapping[str, str | int | bool]
    ) -> list[ast.stmt]:
        """What an import of this package's modules becomes."""
        base = self._base(module, node)
        if not self._is_ours(base, node.names[0].name):
            return [node]
        wanted: dict[str, list[ast.alias]] = {}
        for alias in node.names:
            name = alias.asname or alias.name
            if self._is_module(base, alias.name):
                unit = self.modules[f"{base}.{alias.name}"].unit
                source, _, old = unit.rpartition(".")
            else:
                key = self._resolve(base, alias.name)
                source = unit = self.modules[key[0]].unit
                if self._constant(key) is not None or key[1] == "const":
                    continue
                old = self._short(key)
            if unit != module.unit:
                new = str(names.get(name, name))
                wanted.setdefault(source, []).append(ast.alias(old, None if new == old else new))
        return [ast.ImportFrom(source, aliases, 0) for source, aliases in wanted.items()]
