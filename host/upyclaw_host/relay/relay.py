"""The relay proper: one board request in, a status and paced pieces of an event stream out.

Owns: validation, retries with pauses, time limits, the pacing for a slow line, errors in the one
form the board knows. Must not touch: the link (serve.py), any provider's API.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from upyclaw_host.relay.dialect import (
    Chunk,
    ChunkReader,
    Delta,
    chunk_of,
    empty_answer,
    end_chunk,
    join_surrogates,
    parse_request,
)
from upyclaw_host.relay.errors import ProviderError
from upyclaw_host.relay.provider import Item, Provider
from upyclaw_host.relay.text_calls import TextCalls

PIECE_BYTES = 160  # of text in one event: about 14 ms at 115,200 baud
PIECE_SECONDS = 0.04  # how long text may wait for more text
KEEP_ALIVE_SECONDS = 5.0  # of silence after the status; then an SSE comment is sent
KEEP_ALIVE = b": wait\n\n"
DONE_EVENT = b"data: [DONE]\n\n"

OnWait = Callable[[float, ProviderError], None]


@dataclass(frozen=True)
class Limits:
    """Time limits in seconds: to the first sign of life, between two, and for a whole reply."""

    first: float = 290.0  # below the 300 s after which the board gives up by itself
    idle: float = 90.0
    total: float = 900.0


@dataclass
class RelayReply:
    """What goes back to the board. `close` stops the provider, at any time.

    `status`: 200, the HTTP status of the provider's refusal, or 0 where there was none.
    """

    status: int
    retry_after: float | None
    pieces: AsyncIterator[bytes]
    error: ProviderError | None = None  # also set when the stream ends with an error
    _source: _Source | None = None

    async def close(self) -> None:
        """Stop the provider's call; fine when it has ended."""
        if self._source is not None:
            await self._source.close()


class Relay:
    """Answers requests of boards with one provider; requests may run side by side."""

    def __init__(
        self,
        provider: Provider,
        *,
        limits: Limits | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        self.provider = provider
        self.limits = limits or Limits()
        self.on_wait = on_wait

    def info(self) -> dict[str, Any]:
        """What `hello` tells the board."""
        provider = self.provider
        return {
            "provider": provider.name,
            "model": provider.model,
            "context": provider.context,
            "tools": getattr(provider, "tools", True),
        }

    async def respond(self, kind: str, body: bytes) -> RelayReply:
        """Answer one request. Never raises for a failure of request or provider."""
        try:
            source = await self._open(parse_request(body), kind)
        except ProviderError as error:
            return RelayReply(error.status, error.retry_after, _once(error.body()), error)
        reply = RelayReply(200, None, _once(b""), _source=source)
        reply.pieces = _pieces(source, reply)
        return reply

    async def close(self) -> None:
        """Close the provider's connections."""
        close = getattr(self.provider, "close", None)
        if close is not None:
            await close()

    async def _open(self, request: dict[str, Any], kind: str) -> _Source:
        """A source that has given a first sign of life, after as many tries as allowed."""
        retry = 0
        while True:
            source = _Source(self.provider, request, kind, self.limits)
            try:
                await source.begin()
                return source
            except ProviderError as error:
                await source.close()
                retry += 1
                wait = self.provider.retry.wait_before(retry, error)
                if wait is None:
                    raise
                if self.on_wait is not None:
                    self.on_wait(wait, error)
            except BaseException:
                await source.close()
                raise
            await asyncio.sleep(wait)


class _Source:
    """One call of a provider, pumped by a task of its own so that waiting for it can time out."""

    def __init__(
        self, provider: Provider, request: dict[str, Any], kind: str, limits: Limits
    ) -> None:
        self.reader = ChunkReader(provider.name)
        self._written = TextCalls(request)
        self._limits = limits
        self._deadline = time.monotonic() + limits.total
        self._queue: asyncio.Queue[Item | ProviderError | None] = asyncio.Queue(64)
        self._held: list[Delta | bytes] = []
        self._ended = False
        self._task = asyncio.create_task(self._pump(provider, request, kind))
        self._alive = False

    async def _pump(self, provider: Provider, request: dict[str, Any], kind: str) -> None:
        stream = provider.stream(request, kind)
        try:
            async for item in stream:
                await self._queue.put(item)
            await self._queue.put(None)
        except ProviderError as error:
            await self._queue.put(error)
        except Exception as error:
            # Whatever a library raises, the board gets a sentence and the relay goes on.
            text = f"The relay failed in provider {provider.name}: {type(error).__name__}."
            await self._queue.put(ProviderError(0, text, "server"))
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def begin(self) -> None:
        """Wait until the reply has begun. Raises ProviderError when it never does."""
        while not self._alive:
            found = await self.next(self._limits.first)
            if found is None:
                raise empty_answer(self.reader.finish)
            self._held += found

    async def next(self, patience: float | None = None) -> list[Delta | bytes] | None:
        """The next pieces (perhaps none), None at the end. Raises ProviderError."""
        if self._held:
            held, self._held = self._held, []
            return held
        if self._ended:
            return None
        wait = min(patience or self._limits.idle, self._deadline - time.monotonic())
        try:
            item = await asyncio.wait_for(self._queue.get(), max(wait, 0))
        except asyncio.TimeoutError:
            late = time.monotonic() >= self._deadline
            limit = self._limits.total if late else wait
            what = "was not ready after" if late else "sent nothing for"
            raise ProviderError(
                0, f"The model {what} {limit:g} s; ask again or name a faster one.", "timeout"
            ) from None
        if item is None:
            self._ended = True
            return self._rest()
        if isinstance(item, ProviderError):
            self._ended = True
            raise item
        if isinstance(item, bytes):
            self._alive = True
            return [item]
        if not item:
            self._alive = True
            return []
        deltas = self.reader.feed(item)
        self._alive = self._alive or bool(deltas)
        return list(self._written.take(deltas))

    def _rest(self) -> list[Delta | bytes] | None:
        """What was held back to the end of the reply."""
        rest = self._written.end()
        if self._written.found:
            self.reader.finish = "tool_calls"
        return list(rest) or None

    async def close(self) -> None:
        """Stop the provider's call."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _pieces(source: _Source, reply: RelayReply) -> AsyncIterator[bytes]:
    """The event stream of a begun reply, in pieces for a slow line."""
    pacer = Pacer()
    try:
        async for event in _paced(source, pacer):
            yield event
        if pacer.raw:
            return
        for event in pacer.flush(last=True):
            yield event
        if not pacer.spoken:
            raise empty_answer(source.reader.finish)
        yield sse(end_chunk(source.reader.finish or "stop", source.reader.usage))
        yield DONE_EVENT
    except ProviderError as error:
        reply.error = error
        for event in pacer.flush(last=True):
            yield event
        yield b"data: " + error.body() + b"\n\n"
    finally:
        await source.close()


async def _paced(source: _Source, pacer: Pacer) -> AsyncIterator[bytes]:
    """Events as they become due, until the source ends; a comment now and then in a silence."""
    waiting = asyncio.create_task(source.next())
    sent = time.monotonic()
    try:
        while True:
            quiet = sent + KEEP_ALIVE_SECONDS - time.monotonic()
            pause = pacer.due() if pacer else quiet
            done, _ = await asyncio.wait({waiting}, timeout=max(0.0, pause))
            if done:
                found = waiting.result()
                if found is None:
                    return
                waiting = asyncio.create_task(source.next())
                events = [event for piece in found for event in pacer.add(piece)]
            else:
                events = pacer.flush()
            if not events and not pacer and quiet <= 0:
                events = [KEEP_ALIVE]
            for event in events:
                yield event
            if events:
                sent = time.monotonic()
    finally:
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError, ProviderError):
            await waiting


def sse(chunk: Chunk) -> bytes:
    """One event, compact, raw UTF-8."""
    text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode("utf-8", "replace") + b"\n\n"


class Pacer:
    """Joins small deltas and splits large ones: each event costs about 50 bytes of frame.

    Never splits a character, nor an emoji that came as two escaped halves (B06).
    """

    def __init__(self) -> None:
        self.spoken = False  # anything at all was said
        self.raw = False  # a ready-made stream is passed through
        self._run: Delta | None = None  # the field (and call) that `_text` belongs to
        self._text = ""
        self._since = 0.0

    def __bool__(self) -> bool:
        return self._run is not None

    def due(self) -> float:
        """Seconds until the waiting text should go out."""
        return max(0.0, self._since + PIECE_SECONDS - time.monotonic())

    def add(self, delta: Delta | bytes) -> list[bytes]:
        """Events that are ready after this delta; bytes are passed on as they are."""
        self.spoken = True
        if isinstance(delta, bytes):
            self.raw = True
            return [delta]
        events: list[bytes] = []
        run = self._run
        new_call = delta.call_id is not None
        if run and (new_call or (run.field, run.slot) != (delta.field, delta.slot)):
            events += self.flush(last=True)
        if self._run is None:
            self._run, self._text, self._since = delta, "", time.monotonic()
        self._text += delta.text
        if len(self._text.encode("utf-8", "surrogatepass")) >= PIECE_BYTES:
            events += self.flush()
        return events

    def flush(self, last: bool = False) -> list[bytes]:
        """All that waits; a first half of an emoji stays for its second unless `last`."""
        if self._run is None:
            return []
        run, text, rest = self._run, self._text, ""
        if not last and "\ud800" <= text[-1:] <= "\udbff":
            text, rest = text[:-1], text[-1]
        self._run, self._text = (None, "")
        events = []
        for part in split_text(join_surrogates(text)):
            events.append(sse(chunk_of(run._replace(text=part))))
            run = run._replace(call_id=None, name=None)
        if not text and run.call_id is not None and not rest:
            events.append(sse(chunk_of(run._replace(text=""))))
            run = run._replace(call_id=None, name=None)
        if rest:
            self._run, self._text, self._since = run, rest, time.monotonic()
        return events


def split_text(text: str, limit: int = PIECE_BYTES) -> list[str]:
    """Parts of at most `limit` UTF-8 bytes, cut between characters."""
    parts: list[str] = []
    data = text.encode("utf-8", "replace")
    while data:
        end = limit
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(data[:end].decode())
        data = data[end:]
    return parts
