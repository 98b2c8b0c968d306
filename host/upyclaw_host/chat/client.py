"""The chat client: sends lines on the chat stream, collects the streamed answer of each.

Owns the pairing of a line with its answer and the reconnect after a pulled cable. Knows nothing of
terminals; must not print.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.link import CHAT, HostLink, LinkDown
from upyclaw_host.relay import OnServed, Relay, serve_link

Text = Callable[[str], None]

# A board that says nothing at all for this long has lost the turn: its own limits are shorter.
TURN_SILENCE_S = 420.0

# How long a chat that ends lends its model to the memory of what was just said.
SETTLE_S = 45.0


@dataclass
class TurnResult:
    """One finished turn. `ms` is the board's own count; `error` is one sentence when not `ok`."""

    ok: bool
    text: str = ""
    session: str | None = None
    usage: dict[str, Any] | None = None
    heap_free: int | None = None
    flash_free: int | None = None
    ms: int | None = None
    error: str | None = None
    notes: list[str] = field(default_factory=list)
    timing: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The object that `upyclaw chat --json` prints for each turn."""
        out: dict[str, Any] = {
            "text": self.text,
            "session": self.session,
            "usage": self.usage,
            "heap_free": self.heap_free,
            "ms": self.ms,
        }
        if self.flash_free is not None:
            out["flash_free"] = self.flash_free
        if self.notes:
            out["notes"] = self.notes
        if self.error:
            out["error"] = self.error
        return out


class _Turn:
    """A line on its way: its listeners and the result that grows."""

    def __init__(self, on_text: Text | None, on_note: Text | None) -> None:
        self.result = TurnResult(ok=False)
        self.done = asyncio.Event()
        self.pieces: list[str] = []
        self.heard = asyncio.get_running_loop().time()
        self._on_text = on_text
        self._on_note = on_note

    def take(self, message: dict[str, Any]) -> None:
        self.heard = asyncio.get_running_loop().time()
        event = message.get("ev")
        if event == "text":
            piece = str(message.get("d", ""))
            self.pieces.append(piece)
            if self._on_text:
                self._on_text(piece)
        elif event == "note":
            note = str(message.get("d", ""))
            self.result.notes.append(note)
            if self._on_note:
                self._on_note(note)
        elif event == "end":
            self._end(message)

    def _end(self, message: dict[str, Any]) -> None:
        result = self.result
        result.ok = bool(message.get("ok"))
        result.session = message.get("session")
        result.usage = message.get("usage")
        result.heap_free = message.get("heap_free")
        result.flash_free = message.get("flash_free")
        result.ms = message.get("ms")
        result.error = message.get("error")
        result.timing = message.get("t") or {}
        self.finish()

    def fail(self, sentence: str) -> None:
        self.result.ok = False
        self.result.error = sentence
        self.finish()

    def finish(self) -> None:
        self.result.text = "".join(self.pieces)
        self.done.set()


class ChatClient:
    """One connection to a board, with the relay that answers its model requests.

    Use `await ChatClient.connect(...)`; it raises UserError when port or board do not answer.
    """

    def __init__(
        self,
        port: str,
        relay: Relay | None,
        on_log: Text | None,
        baud: int,
        on_served: OnServed | None = None,
    ) -> None:
        self.port = port
        self.baud = baud
        self.relay = relay
        self.hello: dict[str, Any] = {}
        self.last: TurnResult | None = None
        self.on_notice: Text | None = None
        self._on_log = on_log
        self._on_served = on_served
        self._link: HostLink | None = None
        self._serve: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._turns: dict[int, _Turn] = {}
        self._next_id = 1

    @classmethod
    async def connect(
        cls,
        port: str,
        relay: Relay | None = None,
        *,
        on_log: Text | None = None,
        baud: int = 115200,
        timeout: float = 15.0,
        on_served: OnServed | None = None,
    ) -> ChatClient:
        """Open `port`, say hello, start serving the board's model requests from `relay`."""
        client = cls(port, relay, on_log, baud, on_served)
        await client.reconnect(timeout)
        return client

    @property
    def connected(self) -> bool:
        """True while the cable is in and the board was heard."""
        return self._link is not None and not self._link.closed.is_set()

    @property
    def link(self) -> HostLink:
        """The open link; raises UserError if the cable is out."""
        if self._link is None:
            raise UserError(f"{self.port} is not connected; plug the board in and try again.", 1)
        return self._link

    async def reconnect(self, timeout: float = 15.0) -> None:
        """Open the port again and say hello; raises UserError with one sentence."""
        await self._drop()
        link = await HostLink.open(self.port, baud=self.baud, on_log=self._on_log)
        try:
            link.on(CHAT, self._on_chat)
            if self.relay is not None:
                self._serve = asyncio.create_task(serve_link(link, self.relay, self._on_served))
            info = self.relay.info() if self.relay is not None else None
            self.hello = await link.hello(info, timeout=timeout)
        except BaseException:
            await self._stop_serving()
            await link.close()
            raise
        self._link = link
        self._watch = asyncio.create_task(self._watch_link(link))

    async def web_links(self) -> dict[str, Any]:
        """Links to the board's page (`url`, `guest`), or `why` there is none."""
        try:
            return await self.link.ask({"op": "web"}, timeout=2.0)
        except (LinkDown, UserError):
            return {"why": "This board serves no page (web.enabled in its /config.json)."}

    async def turn(
        self, text: str, on_text: Text | None = None, on_note: Text | None = None
    ) -> TurnResult:
        """Send one line and wait for its end. Never raises for what happens on the way."""
        turn = _Turn(on_text, on_note)
        limit = int(self.hello.get("line") or 8192)
        if len(text.encode("utf-8", "replace")) > limit:
            turn.fail(f"Your line is longer than {limit:,} bytes; send it in parts.")
            return turn.result
        number = self._next_id
        self._next_id += 1
        self._turns[number] = turn
        try:
            message = json.dumps(
                {"id": number, "text": text}, ensure_ascii=False, separators=(",", ":")
            )
            await self.link.send(CHAT, message.encode("utf-8", "replace"))
            await self._wait(turn)
        except (LinkDown, UserError) as error:
            turn.fail(getattr(error, "message", None) or f"The link to {self.port} went down.")
        finally:
            del self._turns[number]
        self.last = turn.result
        return turn.result

    async def _wait(self, turn: _Turn) -> None:
        loop = asyncio.get_running_loop()
        while not turn.done.is_set():
            left = turn.heard + TURN_SILENCE_S - loop.time()
            if left <= 0:
                turn.fail(
                    f"The board on {self.port} said nothing for {int(TURN_SILENCE_S)} s; "
                    "reset it and ask again."
                )
                return
            try:
                await asyncio.wait_for(turn.done.wait(), left)
            except asyncio.TimeoutError:
                continue

    async def settle(self, limit: float = SETTLE_S) -> None:
        """Wait until the board has looked for lasting facts in what was said.

        It asks the model of this PC for that, after the answer: without the relay they would be
        lost. Gives up after `limit` seconds, or when the link goes down.
        """
        if self.relay is None or self.last is None:
            return
        end = asyncio.get_running_loop().time() + limit
        while asyncio.get_running_loop().time() < end:
            try:
                status = await self.link.ask({"op": "status"}, timeout=2.0)
            except (LinkDown, UserError):
                return
            for notice in status.get("notices") or []:
                if self.on_notice:
                    self.on_notice(str(notice))
            if not status.get("jobs"):
                return
            await asyncio.sleep(0.2)

    async def stop(self) -> None:
        """Ask the board to end the running turns early (Ctrl-C in the terminal)."""
        for number in list(self._turns):
            try:
                await self.link.send(CHAT, json.dumps({"id": number, "stop": True}).encode())
            except (LinkDown, UserError):
                return

    def _on_chat(self, message: bytes) -> None:
        try:
            event = json.loads(message)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        turn = self._turns.get(event.get("id", 0))
        if turn is not None:
            turn.take(event)
        elif event.get("ev") == "note" and self.on_notice:
            self.on_notice(str(event.get("d", "")))

    async def _watch_link(self, link: HostLink) -> None:
        await link.closed.wait()
        for turn in list(self._turns.values()):
            turn.fail(
                f"The connection on {self.port} was lost in mid-turn; "
                "the board keeps what it had saved. Plug it in and ask again."
            )

    async def _stop_serving(self) -> None:
        for task in (self._serve, self._watch):
            if task is not None:
                task.cancel()
                try:
                    await task
                except (asyncio.CancelledError, Exception):
                    pass
        self._serve = self._watch = None

    async def _drop(self) -> None:
        await self._stop_serving()
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def close(self) -> None:
        """Say goodbye and free the port."""
        await self._drop()
