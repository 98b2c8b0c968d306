"""Reads a provider's HTTP body: an event stream or one JSON document, into JSON objects.

Owns: line splitting, UTF-8 repair, `[DONE]`, telling JSON, HTML and nothing apart (B19, B43).
Must not touch: what the objects mean (dialect.py, anthropic_dialect.py).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from upyclaw_host.relay.errors import ProviderError, not_json

BODY_LIMIT = 4 * 1024 * 1024  # bytes of one event or of one JSON body
DONE: dict[str, Any] = {"[DONE]": True}  # stands for the line `data: [DONE]`


class EventReader:
    """Feed bytes, get JSON values. A plain JSON body is given at `finish()`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._line = bytearray()
        self._data = ""  # `data:` text that is not yet whole JSON
        self._plain: list[str] = []  # lines of a body that is no event stream
        self._size = 0
        self._stream = False

    def feed(self, piece: bytes) -> list[Any]:
        """JSON values completed by `piece`. Raises ProviderError on a body beyond the limit."""
        found: list[Any] = []
        self._line += piece
        *lines, rest = self._line.split(b"\n")
        if len(rest) + self._size > BODY_LIMIT:
            raise ProviderError(0, "The provider's answer is too long.", "server")
        self._line = bytearray(rest)
        for raw in lines:
            self._take(bytes(raw), found)
        return found

    def finish(self) -> list[Any]:
        """What is left at the end of the body. Raises ProviderError when it is not JSON."""
        found: list[Any] = []
        if self._line:
            self._take(bytes(self._line), found)
            self._line.clear()
        if self._stream:
            # A half `data:` line means the stream was cut; the caller sees that no end came.
            return found
        text = "\n".join(self._plain)
        try:
            return [json.loads(text), DONE]  # a whole document cannot be cut
        except ValueError:
            if text.lstrip().startswith(("{", "[")):
                raise ProviderError(
                    0, "The answer was cut off in the middle; ask again.", "cut"
                ) from None
            raise not_json(text, self._url) from None

    def _take(self, raw: bytes, found: list[Any]) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r")
        name, colon, value = line.partition(":")
        field = name.strip("\ufeff ")
        if colon and field in ("data", "event", "id", "retry", "") and not self._plain:
            self._stream = True
            if field == "data":
                self._data_line(value[1:] if value.startswith(" ") else value, found)
        elif not line.strip():
            self._data = ""  # a blank line ends an event, whole or not
        elif not self._stream:
            self._size += len(raw)
            self._plain.append(line)

    def _data_line(self, value: str, found: list[Any]) -> None:
        if value.strip() == "[DONE]":
            found.append(DONE)
            return
        self._data += value
        if len(self._data) > BODY_LIMIT:
            raise ProviderError(0, "The provider's answer is too long.", "server")
        try:
            # Some servers leave out the blank line, so each line is tried at once.
            found.append(json.loads(self._data))
        except ValueError:
            self._data += "\n"
            return
        self._data = ""


async def read_events(pieces: AsyncIterator[bytes], url: str) -> AsyncIterator[Any]:
    """All JSON values of a body, as they come."""
    reader = EventReader(url)
    async for piece in pieces:
        for value in reader.feed(piece):
            yield value
    for value in reader.finish():
        yield value
