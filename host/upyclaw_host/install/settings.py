"""The board's `/config.json`: from the template, what is there, a TOML file and flags.

Owns the order (later wins) and the check, which is the board's own (`upyclaw.config`): what passes
here is taken there. Values may be keys and passwords and appear in no message.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions

from upyclaw_host.boards import SESSION_LIMIT, BoardSpec
from upyclaw_host.errors import UserError

CONFIG = "/config.json"
Settings = dict[str, Any]


def template(board: BoardSpec) -> Settings:
    """The settings a fresh board of this kind gets."""
    path = board.folder / "config.json"
    try:
        settings = dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} is no JSON object ({error}).") from None
    if board.session_limit < SESSION_LIMIT:
        # A session must fit twice; on this flash the board's own default would not.
        settings = merge({"session": {"limit": board.session_limit}}, settings)
    return settings


def on_board(text: bytes | None) -> Settings | None:
    """What a board's file holds; None if it has none or it is broken."""
    try:
        value = json.loads(text or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def from_toml(path: Path) -> Settings:
    """The settings in a TOML file with the same names and groups."""
    try:
        return dict(tomlkit.parse(path.read_text("utf-8")).unwrap())
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    except (tomlkit.exceptions.TOMLKitError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}.") from None


def from_flag(text: str, ask: Callable[[str], str]) -> Settings:
    """The tree for `group.name=value`; a value that reads as JSON is that, else a text.

    For the value `?`, `ask(name)` gives a text, so that a key need not stand on the command line.
    """
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise UserError(f"--set {key}: write it as NAME=VALUE or GROUP.NAME=VALUE.")
    tree: Any = value
    if value.strip() == "?":
        tree = ask(key.strip())
    else:
        with contextlib.suppress(ValueError):
            tree = json.loads(value)
    for name in reversed(names):
        tree = {name: tree}
    return dict(tree)


def merge(*layers: Settings) -> Settings:
    """One tree; a later layer wins, groups are merged."""
    merged: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            both = isinstance(old, dict) and isinstance(value, dict)
            merged[key] = merge(old or {}, value) if both else value
    return merged


def encode(settings: Settings, strict: bool = True) -> bytes:
    """The file's content. Raises UserError for settings that the board would refuse.

    Not `strict`: for what already is on a board, which must not stop its update; the board tells
    about it itself.
    """
    from upyclaw import config

    data = (json.dumps(settings, ensure_ascii=False, indent=1) + "\n").encode()
    with tempfile.TemporaryDirectory(prefix="upyclaw-") as folder:
        path = Path(folder) / "config.json"
        path.touch(mode=0o600)
        path.write_bytes(data)
        problems: list[str] = config.load(str(path))[1]
    if problems and strict:
        # The board would go on without it; here it is the person's to mend.
        words = str(problems[0]).replace(config.PATH, "The board's settings")
        raise UserError(re.sub(r"; [^;]* is (ignored|used)\.$", "; nothing was written.", words))
    return data
