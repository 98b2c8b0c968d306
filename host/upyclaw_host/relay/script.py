"""Provider `script:FILE`: replays replies from a JSON-lines file (CLI.md), for tests and demos.

Owns: reading the file, the order within a kind, playing a body as a provider would send it. Must
not touch: networking. What the script says is what the board gets: nothing is retried.

A line: `{"for":"chat"|"extract","status":200,"delay_ms":0,"body":{...}|"text","repeat":false}`.
Two optional fields more: `pace_ms` (pause between the words of the reply) and `retry_after`
(seconds, sent along with an error). A body that begins with `data:` is an event stream and goes
to the board byte for byte, whatever is wrong with it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.relay.anthropic_dialect import AnthropicReader
from upyclaw_host.relay.dialect import completion_chunks
from upyclaw_host.relay.errors import ProviderError, http_error
from upyclaw_host.relay.events import DONE, EventReader
from upyclaw_host.relay.provider import NO_RETRY, Item, Recorder

KINDS = ("chat", "extract")
CONTEXT = 8192  # tokens, as the local model
URL = "The script"  # stands for the URL in messages


@dataclass(frozen=True)
class Line:
    """One reply of the script."""

    status: int
    delay_ms: int
    body: Any
    repeat: bool
    pace_ms: int
    retry_after: int | None


class ScriptProvider:
    """Replays a script. Raises UserError (file and line) for a script that cannot be used."""

    name = "script"
    context = CONTEXT
    retry = NO_RETRY

    def __init__(self, path: Path, recorder: Recorder) -> None:
        self.model = path.name
        self._lines = read_script(path)
        self._next = dict.fromkeys(KINDS, 0)
        self._recorder = recorder

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        """The next reply of this kind."""
        self._recorder.write(kind, request)
        line = self._take(kind)
        await asyncio.sleep(line.delay_ms / 1000)
        if line.status != 200:
            raise self._error(line)
        for item in self._items(line.body):
            yield item
            await asyncio.sleep(line.pace_ms / 1000)

    def _take(self, kind: str) -> Line:
        lines = self._lines.get(kind, [])
        index = self._next.get(kind, 0)
        if index < len(lines):
            self._next[kind] = index + 1
            return lines[index]
        if lines and lines[-1].repeat:
            return lines[-1]
        raise ProviderError(
            503, f"The script {self.model} has no more replies for {kind} (HTTP 503).", "server"
        )

    def _error(self, line: Line) -> ProviderError:
        body = line.body
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        headers = {} if line.retry_after is None else {"retry-after": str(line.retry_after)}
        return http_error(
            line.status, text, url=URL, model=self.model, key_setting="the key", headers=headers
        )

    def _items(self, body: Any) -> Iterator[Item]:
        if isinstance(body, str):
            if re.match(r"\s*(data|event|id|retry)?:", body):
                for event in re.findall(r".+?(?:\n\n|$)", body, re.S):
                    yield event.encode("utf-8", "surrogatepass")
                return
            # Not a stream: judged like any HTTP body that is no JSON, HTML or nothing (B43).
            reader = EventReader(URL)
            for value in reader.feed(body.encode("utf-8", "surrogatepass")) + reader.finish():
                if value is not DONE:
                    yield from self._items(value)
        elif isinstance(body, dict) and body.get("type") in ("message", "error"):
            yield from AnthropicReader(URL).feed(body)
        else:
            yield from completion_chunks(body, URL)


def read_script(path: Path) -> dict[str, list[Line]]:
    """The lines by kind. Blank lines are skipped."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"The script {path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UserError(f"The script {path} is not UTF-8 text.") from None
    found: dict[str, list[Line]] = {kind: [] for kind in KINDS}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            kind, entry = _line(line, f"{path}, line {number}")
            found[kind].append(entry)
    return found


def _line(text: str, where: str) -> tuple[str, Line]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error}).") from None
    if not isinstance(value, dict) or "body" not in value:
        raise UserError(f'{where}: a script line is an object with "for" and "body".')
    kind = value.get("for", "chat")
    if kind not in KINDS:
        raise UserError(f'{where}: "for" must be "chat" or "extract".')
    numbers = {"status": 200, "delay_ms": 0, "pace_ms": 0}
    for name in numbers:
        given = value.get(name, numbers[name])
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise UserError(f'{where}: "{name}" must be a whole number.')
        numbers[name] = given
    wait = value.get("retry_after")
    if not isinstance(wait, (int, type(None))):
        raise UserError(f'{where}: "retry_after" must be a whole number of seconds.')
    repeat = value.get("repeat") is True
    return kind, Line(
        numbers["status"], numbers["delay_ms"], value["body"], repeat, numbers["pace_ms"], wait
    )
