"""Joins the device code that is always loaded into one file, and shortens what others may name.

Every module takes heap on the board for its namespace, its imports, its file name and its own copy
of each constant; every global name and argument name takes a string. So what `upyclaw.app` imports
at its top becomes one file, `upyclaw/app.mpy`; modules that are loaded when they are needed keep
files of their own. Whole numbers in upper-case names are put where they are used. Measured in the
simulated board (64-bit words): see docs/development.md.

Owns the new names and texts; which modules belong together and what their names mean is
modules.py's. Touches no file. The code must play by a few rules, each refused with a sentence if
broken: no `import *`, nobody sets a name in another module, a name means one thing in its file, no
circular imports at the top.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from upyclaw_host.errors import UserError
from upyclaw_host.flash.modules import Module, Package
from upyclaw_host.flash.names import arguments, scopes_in, short_names
from upyclaw_host.flash.outside import AttributeRenamer, own_attributes, said
from upyclaw_host.flash.rewrite import Rewriter
from upyclaw_host.flash.scan import exceptions, once, top_imports
from upyclaw_host.flash.shorten import shorten

_KEPT = {"main", "start_failed", "const"}  # main.py calls the first two, the compiler the last


def join(sources: Mapping[str, str], entry: str, others: Iterable[str] = ()) -> dict[str, str]:
    """Module name -> source for the board, from module name -> source (`a.b.__init__` for
    packages). `entry` stands for everything it imports at its top; so does each module that is
    imported inside a function, for what nobody else imports. `others`: texts of other code that
    uses our objects. Raises UserError."""
    if entry not in sources:
        return {name: shorten(text, name) for name, text in sources.items()}
    return _Join(Package(sources, entry), entry, others).result()


class _Join:
    def __init__(self, package: Package, entry: str, others: Iterable[str]) -> None:
        self.package = package
        self.entry = entry
        self.modules = package.modules
        self.units = package.units()
        trees = {module.name: module.tree for module in self.modules.values()}
        self.exceptions = exceptions(trees.values())
        self.said = said(trees.values())
        mappings = own_attributes(trees, package.related(), others)
        for module in self.modules.values():
            renamer = AttributeRenamer(mappings[module.name], module.modules)
            module.tree = renamer.visit(module.tree)
        self.short: dict[tuple[str, str], str] = {}
        for unit in self.units:
            self._name_globals(unit)

    def result(self) -> dict[str, str]:
        for module in self.modules.values():
            self._rewrite(module)
        out = {}
        for unit, members in self.units.items():
            tree = ast.Module(once(node for one in members for node in one.tree.body), [])
            arguments(tree, self.said)
            key = unit + ".__init__" if self.modules[unit].package else unit
            out[key] = ast.unparse(ast.fix_missing_locations(tree))
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

    def _top_aliases(self, module: Module) -> set[str]:
        """Names that stand for something of another file in all of `module`."""
        return {
            name
            for name in top_imports(module.tree) & (set(module.symbols) | set(module.modules))
            if self._is_elsewhere(module, name)
        }

    def _is_elsewhere(self, module: Module, name: str) -> bool:
        if name in module.modules:
            return self.modules[module.modules[name]].unit != module.unit
        key = self.package.resolve(*module.symbols[name])
        return self._constant(key) is None and self.modules[key[0]].unit != module.unit

    def _short(self, key: tuple[str, str]) -> str:
        return self.short.get(key, key[1])

    def _constant(self, key: tuple[str, str]) -> int | bool | None:
        return self.modules[key[0]].constants.get(key[1])

    # The new text

    def _rewrite(self, module: Module) -> None:
        names: dict[str, str | int | bool] = {}
        for name in module.own:
            constant = module.constants.get(name)
            names[name] = self.short[module.name, name] if constant is None else constant
        for name, (target, symbol) in module.symbols.items():
            key = self.package.resolve(target, symbol)
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

    def _attribute(self, module: Module, alias: str, attr: str) -> ast.expr | str:
        """What `alias.attr` becomes: an expression, or the attribute's new name."""
        target = module.modules[alias]
        key = self.package.resolve(target, attr)
        constant = self._constant(key)
        if constant is not None:
            return ast.Constant(constant)
        if self.modules[key[0]].unit == module.unit:
            return ast.Name(self._short(key), ast.Load())
        if self.modules[key[0]].unit != self.modules[target].unit:
            raise UserError(f"{module.name} reads {alias}.{attr}, which is {key[0]}'s.")
        return self._short(key)

    def _imports(
        self, module: Module, node: ast.ImportFrom, names: Mapping[str, str | int | bool]
    ) -> list[ast.stmt]:
        """What an import of this package's modules becomes."""
        base = self.package.base(module, node)
        if not self.package.is_ours(base, node.names[0].name):
            return [node]
        wanted: dict[str, list[ast.alias]] = {}
        for alias in node.names:
            name = alias.asname or alias.name
            if self.package.is_module(base, alias.name):
                unit = self.modules[f"{base}.{alias.name}"].unit
                source, _, old = unit.rpartition(".")
            else:
                key = self.package.resolve(base, alias.name)
                source = unit = self.modules[key[0]].unit
                if self._constant(key) is not None or key[1] == "const":
                    continue
                old = self._short(key)
            if unit != module.unit:
                new = str(names.get(name, name))
                wanted.setdefault(source, []).append(ast.alias(old, None if new == old else new))
        return [ast.ImportFrom(source, aliases, 0) for source, aliases in wanted.items()]
