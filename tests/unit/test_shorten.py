"""Private names are shortened without changing what a module does."""

from __future__ import annotations

import pytest

from upyclaw_host.errors import UserError
from upyclaw_host.flash.shorten import shorten

SOURCE = """
from micropython import const

_LIMIT = const(3)
_count = 0


class Box:
    def __init__(self, _first):
        self.open = _first
        self._hidden_value = _LIMIT

    def _double(self):
        return self._hidden_value * 2

    def look(self):
        global _count
        _count += 1
        return self._double() + _count
"""


def test_same_behaviour_with_shorter_names():
    text = shorten(SOURCE, "box.py")
    assert "_hidden_value" not in text and "_double" not in text and "_count" not in text
    assert "__init__" in text and "_LIMIT = const(3)" in text and "look" in text
    names: dict[str, object] = {}
    exec(text.replace("from micropython import const", "const = int"), names)
    box = names["Box"](1)
    assert (box.look(), box.look(), box.open) == (7, 8, 1)


def test_private_name_of_another_file_is_refused():
    with pytest.raises(UserError, match="_secret of another file"):
        shorten("def f(x):\n    return x._secret\n", "a.py")
    with pytest.raises(UserError, match="_state of another file"):
        shorten("import other\nother._state = 1\n", "a.py")
    with pytest.raises(UserError, match="_helper"):
        shorten("from b import _helper\n_helper()\n", "a.py")


def test_short_names_do_not_collide():
    text = shorten("_a = 1\n_longer = 2\n_longer += _a\nout = _longer\n", "a.py")
    names: dict[str, object] = {}
    exec(text, names)
    assert names["out"] == 3
