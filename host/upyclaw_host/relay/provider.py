"""What every provider offers, and the record of what it received.

Owns: the Provider protocol, RetryPolicy, Recorder. Must not touch: any one provider's API.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from upyclaw_host.errors import UserError
from upyclaw_host.relay.errors import ProviderError

# A chunk in OpenAI form; {} says "alive, no words yet"; bytes go to the board as they are.
Item = dict[str, Any] | bytes


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long the relay waits for a provider that may recover (B43)."""

    retries: int = 2  # further tries after the first
    pause: float = 1.0  # seconds before the second try; doubles each time
    limit: float = 30.0  # seconds; a longer Retry-After is told to the user instead of waited for

    def wait_before(self, retry: int, error: ProviderError) -> float | None:
        """Seconds to wait before retry number `retry` (1...), None = give up."""
        if retry > self.retries or not error.passing:
            return None
        wait = self.pause * float(2 ** (retry - 1))
        if error.retry_after is not None:
            wait = max(error.retry_after, 0.05)
        return wait if wait <= self.limit else None


NO_RETRY = RetryPolicy(retries=0)


class Provider(Protocol):
    """A model that answers requests in OpenAI form.

    `context` is in tokens. `stream` yields Items and raises ProviderError; closing the iterator
    stops the call. `kind` is "chat" or "extract".
    """

    name: str
    model: str
    context: int
    retry: RetryPolicy

    def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        """The reply, piece by piece."""
        ...


class Recorder:
    """Appends every request body that a provider received to a JSON-lines file (CLI.md).

    Only bodies are written: keys travel in headers and never get here.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        if path is not None:
            try:
                path.open("a", encoding="utf-8").close()
            except OSError as error:
                raise UserError(
                    f"--record {path} cannot be written ({error.strerror}): choose another file."
                ) from None

    def write(self, kind: str, body: dict[str, Any]) -> None:
        """Append one request."""
        if self._path is None:
            return
        entry = {"for": kind, "time": int(time.time()), "body": body}
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        with self._lock, self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line + "\n")
