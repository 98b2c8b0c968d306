"""The bearer tokens of boards that use the relay over the network.

Owns `relay-tokens.json` beside the settings file: name -> SHA-256 of the token, so that the file
gives no token away. A token has 128 random bits, which needs no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from pathlib import Path

from upyclaw_host.config import config_path
from upyclaw_host.errors import UserError

FILE_NAME = "relay-tokens.json"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")


class Tokens:
    """The token file at `path`, by default beside the settings. Raises UserError if unusable."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_path().with_name(FILE_NAME)
        self._hashes: dict[str, str] = {}
        self._stamp: tuple[int, int] | None = None
        self._read()

    def names(self) -> list[str]:
        """Boards that have a token."""
        self._read()
        return sorted(self._hashes)

    def add(self, name: str) -> str:
        """A new token for the board `name`; shown once, an older one is worth nothing then."""
        if not _NAME.fullmatch(name):
            raise UserError(
                f"{name!r} is no name for a board: use up to 40 letters, digits and . _ -"
            )
        self._read()
        token = "upc_" + secrets.token_urlsafe(16)
        self._hashes[name] = _hash(token)
        self._write()
        return token

    def remove(self, name: str) -> None:
        """Take a board's token away; a running relay refuses it from then on."""
        self._read()
        if self._hashes.pop(name, None) is None:
            raise UserError(f"No board {name!r} has a token in {self.path}.")
        self._write()

    def owner(self, token: str) -> str | None:
        """The board whose token this is, None if nobody's."""
        self._read()
        given = _hash(token)
        found = None
        for name, known in self._hashes.items():
            if hmac.compare_digest(given, known):
                found = name
        return found

    def _read(self) -> None:
        """Read the file if it changed, so that `token add` takes effect in a running relay."""
        try:
            facts = self.path.stat()
            stamp = (facts.st_mtime_ns, facts.st_size)
            if stamp == self._stamp:
                return
            value = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            self._hashes, self._stamp = {}, None
            return
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path} cannot be read ({error}); mend or remove it.") from None
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise UserError(f"{self.path} is not a list of tokens; remove it.")
        self._hashes, self._stamp = value, stamp

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(f".{os.getpid()}")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(self._hashes, file, indent=1, sort_keys=True)
        part.replace(self.path)
        self._stamp = None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
