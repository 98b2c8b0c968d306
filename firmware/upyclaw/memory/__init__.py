"""The memory that outlives sessions: long-term items, their extraction, the profile files.

Owns everything under /data/memory. Must not import channels, llm or session code: it gets a path,
callables and a clock. Modules that are not needed on every turn are loaded when used and dropped.
"""

import sys

from ..compat import MICROPYTHON


def drop(name):
    """Unload the module `name` of this package: on the chip its code lies in the heap."""
    if MICROPYTHON:
        package = sys.modules["upyclaw.memory"]
        sys.modules.pop("upyclaw.memory." + name, None)
        try:
            delattr(package, name)
        except (AttributeError, KeyError):
            pass
