"""docs/settings.md names every setting of the board with its true default, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from upyclaw import config

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
ROW = re.compile(r"^\| `([a-z_.]+)` \| `?(.*?)`? \|", re.MULTILINE)


def flat(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            out.update(flat(value, above + name + "."))
        else:
            out[above + name] = value
    return out


def test_the_page_lists_every_setting_with_its_default() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert {name: json.loads(value) for name, value in rows} == flat(config.defaults())
    assert len(rows) == len(flat(config.defaults()))
