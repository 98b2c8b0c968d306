"""The memory that outlives sessions: long-term items, their extraction, the profile files.

Owns everything under /data/memory. Must not import channels, llm or session code: it gets a path,
callables and a clock. On the chip code lies in the heap, so modules that are not needed between
turns are loaded when used and dropped.
"""

import gc
import sys

from ..compat import MICROPYTHON, unload

_PREFIX = "upyclaw.memory."
# What holds data between turns.
_STAYS = ("store", "worker", "tool")


def drop(name):
    """Unload the module `name` of this package."""
    if MICROPYTHON:
        unload(_PREFIX + name)


def drop_all():
    """Unload every module of this package but those that hold data, and collect at once: what is
    allocated next must not come to lie behind the garbage."""
    if MICROPYTHON:
        for name in list(sys.modules):
            if name.startswith(_PREFIX) and name[len(_PREFIX) :] not in _STAYS:
                unload(name)
        gc.collect()
