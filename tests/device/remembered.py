"""The long-term memory as its tests make it and look at it."""

from given import kept

from upyclaw.compat import json_loads
from upyclaw.memory.store import MemoryStore

NOW = 1796026877


def vectors(name):
    """The JSON file `name` of tests/data/memory."""
    return json_loads(kept("memory/" + name))


def case(id, name):
    """(input, expected) of a case of cases.json."""
    for entry in vectors("cases.json")[id]:
        if entry["name"] == name:
            return entry["input"], entry["expected"]


def fresh(root, now=NOW):
    """A store below `root` whose clock stands still at `now` (0: it was never set)."""
    return MemoryStore(root + "/memory", clock=lambda: now)


def contents(store):
    return [item["content"] for item in store.items()]
