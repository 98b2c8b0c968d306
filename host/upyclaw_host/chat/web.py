"""Chat with a board over its page's WebSocket, and the link to that page as a QR code.

Owns the network side of `upyclaw chat --url`. The board has its model by itself then: nothing is
relayed. Messages: docs/web.md.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any
from urllib.parse import urlsplit

import segno
import websockets
from rich.console import Console

from upyclaw_host.chat.client import TURN_SILENCE_S, Text, TurnResult
from upyclaw_host.errors import UserError

_LOGIN_S = 15.0
_PING_S = 25.0  # the board hangs up on a page that is silent for 75 s


def show_links(console: Console, links: dict[str, Any]) -> None:
    """Print the page's links (the answer to the control operation `web`) and a QR code."""
    if not links.get("url"):
        console.print(str(links.get("why") or "This board serves no page."), markup=False)
        return
    segno.make(str(links["url"]), error="l").terminal(compact=True)
    console.print(f"The page, with memory:  {links['url']}", markup=False, soft_wrap=True)
    console.print(f"For guests, without:    {links['guest']}", markup=False, soft_wrap=True)


class WebClient:
    """A page without a browser; the same methods as ChatClient. Use `await WebClient.connect`."""

    relay = None

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            web = parts.scheme in ("http", "ws") and parts.port != 0  # reading the port checks it
            if not (web and parts.hostname and parts.fragment):
                raise ValueError
        except ValueError:
            raise UserError(
                f"{url!r} is no link to a board's page; it looks like http://192.168.1.20/#TOKEN "
                "and stands on the board's serial line."
            ) from None
        self.port = f"http://{parts.netloc}/"
        self.hello: dict[str, Any] = {}
        self.last: TurnResult | None = None
        self.on_notice: Text | None = None
        self._url = url
        self._address = f"ws://{parts.netloc}/ws"
        self._token = parts.fragment
        self._ws: websockets.ClientConnection | None = None
        self._ping: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._number = 0

    @classmethod
    async def connect(cls, url: str) -> WebClient:
        """Log in at `url` (the link that the board shows); raises UserError."""
        client = cls(url)
        await client.reconnect()
        return client

    @property
    def connected(self) -> bool:
        """True while the board holds the connection."""
        return self._ws is not None and self._ws.state is websockets.State.OPEN

    async def reconnect(self, timeout: float = _LOGIN_S) -> None:
        """Log in again; raises UserError with one sentence."""
        await self.close()
        try:
            ws = await asyncio.wait_for(websockets.connect(self._address), timeout)
            await ws.send(json.dumps({"op": "login", "token": self._token}))
            hello = json.loads(await asyncio.wait_for(ws.recv(), timeout))
        except (OSError, asyncio.TimeoutError, ValueError, websockets.WebSocketException) as error:
            number = getattr(error, "errno", None) or 0
            why = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or error
            raise UserError(
                f"No board answers at {self.port} ({why or 'no answer'}); check the address, "
                "and that not more than four pages are open.",
                1,
            ) from None
        if hello.get("ev") != "hello":
            await ws.close()
            raise UserError(f"{self.port} refused: {hello.get('d')}", 1)
        self._ws = ws
        self.hello = {**hello, "firmware": "", "notices": [str(hello.get("d", ""))]}
        self._ping = asyncio.create_task(self._keep_alive(ws))

    async def web_links(self) -> dict[str, Any]:
        """The link this client came by."""
        return {"url": self._url, "guest": "ask at the board's serial line (/web)"}

    async def turn(
        self, text: str, on_text: Text | None = None, on_note: Text | None = None
    ) -> TurnResult:
        """Send one line and wait for its end. Never raises for what happens on the way."""
        async with self._turn:
            result = TurnResult(ok=False)
            try:
                await self._run(text, result, on_text, on_note)
            except (OSError, asyncio.TimeoutError, websockets.WebSocketException):
                result.error = (
                    f"The connection to {self.port} was lost in mid-turn; the board goes on and "
                    "keeps its answer. Ask again."
                )
            self.last = result
            return result

    async def _run(
        self, text: str, result: TurnResult, on_text: Text | None, on_note: Text | None
    ) -> None:
        if self._ws is None:
            raise OSError
        self._number += 1
        line = {"id": self._number, "op": "chat", "text": text}
        await self._ws.send(json.dumps(line, ensure_ascii=False))
        while True:
            event = json.loads(await asyncio.wait_for(self._ws.recv(), TURN_SILENCE_S))
            words = str(event.get("d", ""))
            if event.get("id") != self._number:
                continue
            if event["ev"] == "text":
                result.text += words
                if on_text:
                    on_text(words)
            elif event["ev"] == "note":
                result.notes.append(words)
                if on_note:
                    on_note(words)
            elif event["ev"] == "end":
                result.ok = bool(event.get("ok"))
                for name in ("session", "usage", "heap_free", "flash_free", "ms", "error"):
                    setattr(result, name, event.get(name))
                return

    async def settle(self) -> None:
        """Nothing to wait for: the board's model stays with it."""

    async def stop(self) -> None:
        """End the running turn early."""
        if self._ws is not None:
            try:
                await self._ws.send('{"op":"stop"}')
            except websockets.WebSocketException:
                pass

    async def close(self) -> None:
        """Hang up."""
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None
        if self._ws is not None:
            await self._ws.close()
            self._ws = None

    async def _keep_alive(self, ws: websockets.ClientConnection) -> None:
        while True:
            await asyncio.sleep(_PING_S)
            try:
                await ws.send('{"op":"ping"}')
            except websockets.WebSocketException:
                return
