"""Answers the model requests that arrive over a link.

Owns: message headers of streams 2 and 3, one running request a stream, cancelling. Must not
touch: frames (upyclaw_host.link), providers. Source: docs/link.md, model messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from upyclaw_host.errors import UserError
from upyclaw_host.relay.relay import Relay, RelayReply

_log = logging.getLogger(__name__)

HELLO_POLL_SECONDS = 0.02
CONTROL = 0
STREAMS = {2: "chat", 3: "extract"}


class LinkLike(Protocol):
    """What the service needs of a link: whole messages in, a message in parts out."""

    closed: asyncio.Event

    async def send(self, stream: int, data: bytes, end: bool = True) -> None:
        """Send one message, or a part of it when `end` is False."""
        ...

    def on(self, stream: int, callback: Callable[[bytes], Any]) -> Any:
        """Call `callback` with each whole message of the stream."""
        ...


@dataclass(frozen=True)
class Served:
    """One finished request, for a log. Sizes in bytes, time in seconds."""

    kind: str
    status: int
    received: int
    sent: int
    seconds: float
    first: float | None  # seconds until the first words
    error: str | None


OnServed = Callable[[Served], None]


class LinkService:
    """Serves one link with one relay. A new request on a stream replaces the running one."""

    def __init__(self, link: LinkLike, relay: Relay, on_served: OnServed | None = None) -> None:
        self._link = link
        self._relay = relay
        self._on_served = on_served
        self._tasks: dict[int, tuple[Any, asyncio.Task[None]]] = {}

    def start(self) -> None:
        """Listen on the model streams and for `cancel` on the control stream."""
        for stream in STREAMS:
            self._link.on(stream, functools.partial(self._request, stream))
        self._link.on(CONTROL, self._control)

    async def stop(self) -> None:
        """Stop what runs."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        self._tasks.clear()

    def cancel(self, request_id: Any) -> bool:
        """Stop the request with this id; its message on the link is ended properly."""
        for running, task in self._tasks.values():
            if running == request_id and not task.done():
                task.cancel()
                return True
        return False

    def _control(self, message: bytes) -> None:
        try:
            value = json.loads(message)
        except ValueError:
            return
        if isinstance(value, dict) and value.get("op") == "cancel":
            self.cancel(value.get("id"))

    def _request(self, stream: int, message: bytes) -> None:
        head, _, body = message.partition(b"\n")
        try:
            header = json.loads(head)
            request_id = header["id"]
        except (ValueError, KeyError, TypeError):
            return  # without an id nobody could tell whose answer it is
        kind = header.get("kind") if header.get("kind") in STREAMS.values() else STREAMS[stream]
        before = self._tasks.get(stream)
        task = asyncio.create_task(
            self._serve(stream, request_id, kind, bytes(body), before[1] if before else None)
        )
        self._tasks[stream] = (request_id, task)

    async def _serve(
        self,
        stream: int,
        request_id: Any,
        kind: str,
        body: bytes,
        before: asyncio.Task[None] | None,
    ) -> None:
        if before is not None and not before.done():
            # The board waits for one reply a stream: a new request means it gave the old one up.
            before.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await before
        start = time.monotonic()
        reply = None
        try:
            reply = await self._relay.respond(kind, body)
            sent, first = await self._send(stream, request_id, reply)
        except UserError as down:
            # The link broke in the middle: the board asks again after its next hello.
            _log.debug("reply on stream %d not delivered: %s", stream, down)
            return
        finally:
            if reply is not None:
                await reply.close()
        if self._on_served is not None:
            words = None if first is None else first - start
            error = reply.error.message if reply.error else None
            seconds = time.monotonic() - start
            self._on_served(Served(kind, reply.status, len(body), sent, seconds, words, error))

    async def _send(
        self, stream: int, request_id: Any, reply: RelayReply
    ) -> tuple[int, float | None]:
        """Send the reply as it comes; returns (bytes sent, time of the first piece)."""
        sent = 0
        first: float | None = None
        wait = None if reply.retry_after is None else round(reply.retry_after)
        header = {"id": request_id, "status": reply.status, "retry_after": wait}
        try:
            head = json.dumps(header, separators=(",", ":")).encode() + b"\n"
            await self._link.send(stream, head, end=False)
            async for piece in reply.pieces:
                first = first or time.monotonic()
                sent += len(piece)
                await self._link.send(stream, piece, end=False)
        finally:
            # Also after a cancel: the next message must not begin inside this one.
            await asyncio.shield(self._finish(stream))
        return sent, first

    async def _finish(self, stream: int) -> None:
        if self._link.closed.is_set():
            return
        with contextlib.suppress(UserError):  # the link went down: there is nobody to tell
            await self._link.send(stream, b"", end=True)


async def serve_link(link: LinkLike, relay: Relay, on_served: OnServed | None = None) -> None:
    """Answer requests until the session ends; cancelling this stops all that runs.

    May be started before `hello`, so that a request right behind the board's hello is heard.
    """
    service = LinkService(link, relay, on_served)
    service.start()
    try:
        while link.closed.is_set():  # no session yet
            await asyncio.sleep(HELLO_POLL_SECONDS)
        await link.closed.wait()
    finally:
        await service.stop()
