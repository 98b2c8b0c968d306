"""The memory that outlives sessions: long-term items, their extraction, the profile files.

Owns everything under /data/memory. Must not import channels, llm or session code: it gets a path,
callables and a clock. On the chip code lies in the heap, so modules that are not needed between
turns are loaded when used and dropped.
"""

import gc
import sys

from .. import compat
from ..compat import MICROPYTHON, unload

_PREFIX = "upyclaw.memory."
# What holds data between turns.
_STAYS = ("store", "worker", "tool")
# What may be at work, or have made an object that is, when the rest is wiped.
_AT_WORK = ("job", "orders", "context", "profile")


def drop(name):
    """Unload the module `name` of this package."""
    if MICROPYTHON:
        unload(_PREFIX + name)


def unwanted(*names):
    """Unload modules of this package and collect. Who still holds on to one goes on with it."""
    if MICROPYTHON:
        for name in names:
            drop(name)
        gc.collect()


def empty(name):
    """compat.empty for a module of this package."""
    compat.empty(_PREFIX + name)


def over(module):
    """All work of `module` is done: `empty` for one that may not be known by its name any more.
    `drop_all` must follow."""
    if MICROPYTHON:
        module.__dict__.clear()


def drop_all(wiped=False):
    """Unload every module of this package but those that hold data, and collect at once: what is
    allocated next must not come to lie behind the garbage. `wiped`: none of them runs but those
    of _AT_WORK, see `empty`."""
    if MICROPYTHON:
        names = [name[len(_PREFIX) :] for name in sys.modules if name.startswith(_PREFIX)]
        for name in names:
            if name not in _STAYS:
                if wiped and name not in _AT_WORK:
                    empty(name)
                else:
                    drop(name)
        gc.collect()
