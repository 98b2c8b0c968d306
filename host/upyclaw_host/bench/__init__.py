"""The printed numbers: one module a benchmark, with `run(progress) -> dict` and `render(dict)`.

Figures are counts and ratios from one run of the simulated board or of the device code; bare
seconds say more about the PC than about the product.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

Progress = Callable[[str], None]

# name -> (module here, what it prints)
BENCHES = {
    "ram": ("ram", "heap of the simulated ESP32: idle, in a turn, with Wi-Fi, with the page"),
    "net": ("net", "heap of Wi-Fi and of a model over HTTP"),
    "latency": ("latency", "from a line sent to its first word, split up"),
    "wear": ("wear", "erases and bytes that a turn, and a stored fact, cost the flash"),
    "powercut": ("powercut", "power cuts at every flash operation; what is lost"),
    "recall": ("recall", "questions that find their fact in the long-term memory"),
    "size": ("size", "bytes of compiled code by module"),
    "serial": ("serial", "bytes on the serial line for a turn with a long session"),
}


class Bench(Protocol):
    """What a benchmark's module has."""

    def run(self, progress: Progress) -> dict[str, Any]: ...

    def render(self, result: dict[str, Any]) -> str: ...


def load(name: str) -> Bench:
    """The module of benchmark `name`."""
    module: Any = importlib.import_module(f"upyclaw_host.bench.{BENCHES[name][0]}")
    return module  # type: ignore[no-any-return]
