"""Checks device code for what MicroPython 1.24 on a chip lacks: `check_firmware.py PATH...`.

Reads every `.py` below the paths, prints `file:line: finding` and ends with 1 if there was one.
The rules are tables below; what a rule has to let through stands in ALLOWED, by file. Changes
nothing.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from upyclaw_host.errors import UserError
from upyclaw_host.flash.mpy import compile_file

# (end of the file's path, what it may use). Floats on the chip have 32 bits: a Unix time in one is
# off by a minute, so each float needs a reason.
ALLOWED: set[tuple[str, str]] = {
    # CPython's half of the clock.
    ("upyclaw/compat.py", "time.monotonic_ns"),
    ("upyclaw/compat.py", "float"),
    # The place that hides the chip's epoch, and the one that mends `json.loads`.
    ("upyclaw/compat.py", "time.time"),
    ("upyclaw/compat.py", "json.loads"),
    # Only the difference of two readings: how long the board has been up.
    ("upyclaw/tools/builtin.py", "time.time"),
    ("upyclaw/tools/answers.py", "time.time"),
}


def _words(text: str) -> set[str]:
    return set(text.split())


# Modules of MicroPython 1.24 on the ESP32, and the device package.
MODULES = _words(
    "__main__ _thread array asyncio binascii builtins collections cryptolib deflate errno esp "
    "esp32 flashbdev gc hashlib heapq io json machine micropython network ntptime os platform "
    "random re select socket ssl struct sys time tls uctypes upyclaw vfs websocket "
    # Put on the board with the firmware, see flash/extra.py.
    "microdot"
)

# Methods of str, bytes, int, list that CPython has and MicroPython has not.
METHODS = _words(
    "bit_count bit_length capitalize casefold expandtabs format_map isalnum isascii isdecimal "
    "isidentifier isnumeric isprintable istitle ljust maketrans removeprefix removesuffix rjust "
    "swapcase title translate zfill"
)

# Module -> attributes that MicroPython's has not.
MISSING = {
    "asyncio": _words("Condition Queue Semaphore TaskGroup timeout to_thread"),
    "os": _words("access environ fsync getpid link makedirs path replace scandir truncate walk"),
    "sys": _words("getsizeof maxunicode"),
    "time": _words("monotonic monotonic_ns perf_counter strftime"),
}

# module.attribute -> what to use instead.
INSTEAD = {
    "time.time": "counts from 2000 on the chip; use compat.unix_time",
    "json.loads": "leaves halves of surrogate pairs; use compat.json_loads",
}

# Functions and methods that take no such keyword, or no keyword at all (None), in MicroPython.
KEYWORDS: dict[str, set[str] | None] = {
    "decode": {"errors"},
    "dumps": {"ensure_ascii", "sort_keys", "indent", "default"},
    "encode": {"errors"},
    "from_bytes": None,
    "hex": None,
    "int": None,
    "print": {"flush"},
    "rsplit": None,
    "split": None,
    "splitlines": set(),
    "sum": None,
    "to_bytes": None,
    "zip": {"strict"},
}


class Checker(ast.NodeVisitor):
    """Collects (line, finding) for one file."""

    def __init__(self, path: Path, siblings: set[str]) -> None:
        self.findings: list[tuple[int, str]] = []
        self._path = path.as_posix()
        self._siblings = siblings
        self._comprehensions = 0

    def _find(self, node: ast.AST, text: str) -> None:
        self.findings.append((getattr(node, "lineno", 1), text))

    def _allowed(self, what: str) -> bool:
        return any(self._path.endswith(end) and what == name for end, name in ALLOWED)

    # -- floats --

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Div) and not self._allowed("division"):
            self._find(node, "true division makes a float; use //")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.Div) and not self._allowed("division"):
            self._find(node, "true division makes a float; use //=")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, (float, complex)) and not self._allowed("float"):
            self._find(node, f"float literal {node.value!r}: floats have 32 bits on the chip")

    # -- imports --

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level:
            self._module(node, node.module or "")
            for alias in node.names:
                self._attribute(node, node.module or "", alias.name)

    def _module(self, node: ast.AST, name: str) -> None:
        top = name.partition(".")[0]
        if top not in MODULES and top not in self._siblings and not self._allowed(top):
            self._find(node, f"MicroPython has no module {name}")

    def _attribute(self, node: ast.AST, module: str, attribute: str) -> None:
        name = f"{module}.{attribute}"
        if self._allowed(name):
            return
        if attribute in MISSING.get(module, ()):
            self._find(node, f"MicroPython has no {name}; compat may have what you need")
        elif name in INSTEAD:
            self._find(node, f"{name} {INSTEAD[name]}")

    # -- syntax --

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        if self._comprehensions:
            self._find(node, "`:=` in a comprehension")
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        if None in node.keys:
            self._find(node, "`**` in a dict display; use update()")
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        for inner in _own_nodes(node):
            if isinstance(inner, (ast.Yield, ast.YieldFrom)):
                self._find(inner, "`yield` in an `async def`")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        before = ""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                shown = ast.unparse(part.value).replace(" ", "")
                if before.replace(" ", "").endswith(shown + "=") and part.conversion != -1:
                    self._find(node, "`=` in an f-string")
                if part.conversion == ord("a"):
                    self._find(node, "`!a` in an f-string")
            before = str(part.value) if isinstance(part, ast.Constant) else ""
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        name = type(node).__name__
        if name in ("Match", "TryStar", "TypeAlias"):
            self._find(node, f"MicroPython has no {name.lower()} statement")
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            if any(generator.is_async for generator in node.generators):
                self._find(node, "`async for` in a comprehension")
            self._comprehensions += 1
            super().generic_visit(node)
            self._comprehensions -= 1
            return
        super().generic_visit(node)

    # -- names and calls --

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            self._attribute(node, node.value.id, node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            name, method = function.attr, True
        elif isinstance(function, ast.Name):
            name, method = function.id, False
        else:
            name, method = "", False
        if method and name in METHODS:
            self._find(node, f"MicroPython has no method {name}()")
        if not method and name == "float" and not self._allowed("float"):
            self._find(node, "float(): floats have 32 bits on the chip")
        if method and name in ("decode", "encode") and len(node.args) > 1:
            self._find(node, f"{name}() ignores `errors` on MicroPython; use compat.utf8_clean")
        if method and name == "hex" and node.args:
            self._find(node, "hex() takes no separator on MicroPython 1.24")
        self._keywords(node, name)
        self.generic_visit(node)

    def _keywords(self, node: ast.Call, name: str) -> None:
        if name not in KEYWORDS:
            return
        refused = KEYWORDS[name]
        for keyword in node.keywords:
            if keyword.arg and (refused is None or keyword.arg in refused):
                self._find(node, f"{name}() takes no `{keyword.arg}=` on MicroPython")


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def check_source(path: Path, source: str) -> list[tuple[int, str]]:
    """Findings in `source`; `path` decides what is allowed and which modules lie beside it."""
    try:
        tree = ast.parse(source, feature_version=(3, 10))
    except SyntaxError as error:
        return [(error.lineno or 1, f"does not parse as Python 3.10: {error.msg}")]
    siblings = {sibling.stem for sibling in path.parent.glob("*.py")}
    checker = Checker(path, siblings if path.parent.name == "sim" else set())
    checker.visit(tree)
    return sorted(checker.findings)


def check_file(path: Path, folder: Path) -> list[tuple[int, str]]:
    """Findings in a file, and whether mpy-cross compiles it (into `folder`)."""
    findings = check_source(path, path.read_text(encoding="utf-8"))
    try:
        compile_file(path, folder / "out.mpy", name=path.name)
    except UserError as error:
        findings.append((1, error.message))
    return findings


def main(arguments: list[str]) -> int:
    files: list[Path] = []
    for argument in map(Path, arguments):
        files += sorted(argument.rglob("*.py")) if argument.is_dir() else [argument]
    if not files:
        print("usage: check_firmware.py PATH...", file=sys.stderr)
        return 2
    count = 0
    with tempfile.TemporaryDirectory(prefix="upyclaw-check-") as folder:
        for path in files:
            for line, text in check_file(path, Path(folder)):
                print(f"{path}:{line}: {text}")
                count += 1
    print(f"{len(files)} files, {count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
