"""Device code that is joined and renamed does what it did before."""

from __future__ import annotations

import ast
import builtins
import subprocess
import symtable
import sys
from pathlib import Path

import pytest

from upyclaw_host import resources
from upyclaw_host.errors import UserError
from upyclaw_host.flash.join import join
from upyclaw_host.flash.mpy import compile_file
from upyclaw_host.flash.names import bound_names
from upyclaw_host.flash.outside import own_attributes

PACKAGE = {
    "pk.__init__": '"""Root."""\n__version__ = "7"\n',
    "pk.base": """
import sys
import time

MICROPYTHON = sys.implementation.name == "micropython"
LIMIT = 7
_SMALL = -2
if MICROPYTHON:
    from micropython import const

    def kind():
        return "board"
else:
    def const(x):
        return x

    def kind():
        return "board"

NAMES = ("a", "b")
_count = 0


def bump(step=LIMIT, *, twice=False):
    global _count
    _count += step * (2 if twice else 1)
    return _count + _SMALL


class Fault(Exception):
    pass


class Box:
    size = LIMIT

    def __init__(self, first, second=NAMES):
        self._first = first
        self.second = second

    def _nothing(self, *args):
        return "nothing"

    write = drop = _nothing

    @property
    def first(self):
        return self._first

    def fold(self, first, part):
        def inner(first):
            return [first + part for part in range(part)]

        return inner(first), {part: first for first in (1, 2)}, sum(n * first for n in (part,))
""",
    "pk.store.__init__": """
from pk.store.files import size, Full
from ..base import LIMIT as MOST
""",
    "pk.store.files": """
from pk import base


class Full(base.Fault):
    pass


def size(text):
    size = len(text)
    if size > base.LIMIT:
        raise Full("{} is too long".format(text))
    return size
""",
    "pk.store.seldom": """
from . import size
from .files import Full
from ..base import LIMIT, Box, bump
from pk import base as ground


def reckon(text, more=LIMIT):
    try:
        return size(text), more, bump(1), ground.kind(), ground.LIMIT
    except Full as bump_error:
        return "full: {}".format(bump_error)
""",
    "pk.odd": "def first():\n    return 1\n\n\ndef second(x):\n    return x + first()\n",
    "pk.app": """
import sys

from pk import __version__
from pk.base import LIMIT, NAMES, Box, Fault, bump
from pk.store import MOST, Full, files, size


class Late(Box):
    def __init__(self, first):
        super().__init__(first)
        self.own = files.size("abc")

    def both(self):
        return self.first, self.own, self.second


def call(name, *args):
    from pk import odd

    return getattr(odd, name)(*args)


def bump_twice(text):
    from pk.store.files import size as bump

    return bump(text) + bump(text)


def main():
    from pk.base import kind
    from pk.store.seldom import reckon

    print(__version__, LIMIT, MOST, NAMES, kind())
    print(bump(), bump(2), bump(2, twice=True))
    box = Late(4)
    print(box.both(), box.write(1), box.drop(), box.fold(2, 3), Late.size, box.own)
    print(reckon("abc"), reckon("abcdefghij"))
    try:
        size("0123456789")
    except Fault as fault:
        print(type(fault).__name__, fault)
    print(call("first"), call("second", 4), "pk.store.seldom" in sys.modules)
    size_of = lambda text, size=size: size(text) + LIMIT
    print(size_of("ab"), bump_twice("abc"))
""",
}


def _write(folder: Path, sources: dict[str, str]) -> None:
    for name, text in sources.items():
        path = folder / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _run(folder: Path, *argv: str) -> list[str]:
    program = "import sys; sys.path.insert(0, {!r}); import pk.app; pk.app.main()"
    done = subprocess.run(
        [sys.executable, *argv, "-c", program.format(str(folder))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()


def test_joined_package_does_the_same(tmp_path):
    _write(tmp_path / "before", PACKAGE)
    joined = join(PACKAGE, "pk.app")
    assert set(joined) == {"pk.__init__", "pk.app", "pk.store.seldom", "pk.odd"}
    before = _run(tmp_path / "before")
    assert len(before) == 7 and "Full 0123456789 is too long" in before
    assert _run(tmp_path / "before", "-m", "micropython_unix") == before

    for name, text in joined.items():
        target = tmp_path / "after" / (name.replace(".", "/") + ".mpy")
        compile_file(Path(name), target, name=name, text=text)
    assert _run(tmp_path / "after", "-m", "micropython_unix") == before


def test_what_costs_heap_is_gone():
    text = join(PACKAGE, "pk.app")["pk.app"]
    assert "LIMIT" not in text and "MICROPYTHON" not in text and "_SMALL" not in text
    assert "class Full(Fault)" in text  # messages name exceptions
    assert "def main()" in text
    assert text.count("import sys") == 1


def _with(**changes: str) -> dict[str, str]:
    return PACKAGE | {f"pk.{name}": PACKAGE[f"pk.{name}"] + text for name, text in changes.items()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"app": "\nfrom pk.base import *\n"}, "everything"),
        ({"app": "\ndef f():\n    files.size = 3\n"}, "sets size in another module"),
        ({"app": "\ndef f():\n    return files\n"}, "hands pk.store.files on"),
        ({"app": "\nimport pk.base\n"}, "import pk.base"),
        ({"app": "\nclass C(Box):\n    def f(self):\n        self._x = 1\n"}, "private names"),
        ({"app": "\ndef f():\n    size = 4\n    return size\n\n\nsize = 5\n"}, "also set"),
        ({"app": "\nfrom pk.odd import first as size\n"}, "two places"),
        ({"app": "\ndef f(size):\n    from pk.odd import size\n"}, "an argument"),
        ({"base": "\nfrom pk.store import size\n"}, "import each other"),
    ],
)
def test_what_cannot_be_joined_is_refused(changes, words):
    with pytest.raises(UserError, match=words):
        join(_with(**changes), "pk.app")


def test_package_without_the_app_is_left_in_its_files():
    sources = {"pk.__init__": "", "pk.a": "_long_name = 3\nprint(_long_name)\n"}
    joined = join(sources, "pk.app")
    assert set(joined) == set(sources) and "_long_name" not in joined["pk.a"]


def _firmware() -> dict[str, str]:
    folder = resources.device_package()
    return {
        ".".join(("upyclaw", *path.relative_to(folder).with_suffix("").parts)): path.read_text()
        for path in sorted(folder.rglob("*.py"))
    }


def _globals_read(table: symtable.SymbolTable) -> set[str]:
    found = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module")
    }
    return found.union(*(_globals_read(child) for child in table.get_children()))


def test_no_name_of_the_firmware_is_lost():
    """Every global name that joined code reads is bound in its file; every import finds its."""
    joined = join(_firmware(), "upyclaw.app")
    texts = {name.removesuffix(".__init__"): text for name, text in joined.items()}
    assert 10 < len(texts) < len(_firmware())
    bound = {name: bound_names(ast.parse(text)) for name, text in texts.items()}
    for name, text in texts.items():
        reads = _globals_read(symtable.symtable(text, name, "exec"))
        assert not reads - bound[name] - set(dir(builtins)), name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module in texts:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    others = ("upyclaw.web.microdot",)  # added when the firmware is built
                    assert alias.name in bound[node.module] or inner in (*texts, *others), name


STUBS = Path(sys.prefix) / "typings"


@pytest.mark.skipif(not STUBS.is_dir(), reason="the stubs of MicroPython are not installed")
def test_no_attribute_of_micropython_is_renamed():
    """A method of ours that has the name of one of `network`, `machine` .. keeps it."""
    known = set()
    for path in STUBS.rglob("*.pyi"):
        if path.relative_to(STUBS).parts[0] in ("requests", "umqtt", "_mpy_shed"):
            continue  # not on our boards
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                known.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                known.add(node.target.id)
    assert len(known) > 1000
    trees = {name: ast.parse(text) for name, text in _firmware().items()}
    renamed = set().union(*own_attributes(trees, set()).values())
    assert len(renamed) > 50
    assert not renamed & known
