"""The relay over the network: an OpenAI-compatible HTTP server with a bearer token per board.

Owns: requests, tokens, limits of bodies and connections, one JSON answer for clients that do not
stream. Must not touch: providers; what they say comes from Relay, as over the serial line.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from upyclaw_host.errors import UserError
from upyclaw_host.relay.relay import Relay, RelayReply
from upyclaw_host.relay.serve import OnServed, Served
from upyclaw_host.relay.tokens import Tokens

DEFAULT_PORT = 8765
BODY_LIMIT = 4 * 1024 * 1024  # bytes of one request
BODY_SECONDS = 60.0  # for all of it
AT_ONCE = 4  # running requests of one board
_KIND_HEADER = "x-upyclaw-kind"


def parse_address(text: str) -> tuple[str, int]:
    """(host, port) of `--listen`: "HOST:PORT", ":PORT", "PORT" or "HOST". Raises UserError."""
    match = re.fullmatch(r"(?:(\[[0-9A-Fa-f:]+\]|[^:\[\]]*):)?(\d+)|([^:]+)", text.strip())
    if match is None:
        raise UserError(f"--listen {text}: write HOST:PORT, for example 0.0.0.0:{DEFAULT_PORT}.")
    host = (match[1] or match[3] or "0.0.0.0").strip("[]")
    port = int(match[2] or DEFAULT_PORT)
    if not 0 <= port < 65536:
        raise UserError(f"--listen {text}: {port} is no port; it goes up to 65535.")
    return host, port


def _refusal(status: int, message: str, kind: str = "request", **headers: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "kind": kind}}, status, headers)


class HttpRelay:
    """The server's application. `on_served(board, Served)` is called after each request."""

    def __init__(
        self,
        relay: Relay,
        tokens: Tokens,
        on_served: OnServed | None = None,
        *,
        body_limit: int = BODY_LIMIT,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._relay = relay
        self._tokens = tokens
        self._on_served = on_served
        self._body_limit = body_limit
        self._body_seconds = body_seconds
        self._running: Counter[str] = Counter()
        chat = [
            Route(prefix + "/chat/completions", self._chat, methods=["POST"])
            for prefix in ("/v1", "")
        ]
        self.app = Starlette(routes=[*chat, Route("/v1/models", self._models)])

    def _board(self, request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        return self._tokens.owner(token.strip())

    def _stranger(self) -> JSONResponse:
        text = "This relay does not know the board's token; `upyclaw relay token add` makes one."
        return _refusal(401, text, "auth", **{"WWW-Authenticate": "Bearer"})

    async def _models(self, request: Request) -> Response:
        if self._board(request) is None:
            return self._stranger()
        info = self._relay.info()
        model = {
            "id": info["model"],
            "object": "model",
            "created": 0,
            "owned_by": info["provider"],
            "context_length": info["context"],
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _chat(self, request: Request) -> Response:
        board = self._board(request)
        if board is None:
            return self._stranger()
        if self._running[board] >= AT_ONCE:
            text = f"{AT_ONCE} requests of this board are running; wait for one to end."
            return _refusal(429, text, "rate", **{"Retry-After": "2"})
        self._running[board] += 1
        try:
            body = await self._body(request)
            if isinstance(body, Response):
                self._running[board] -= 1
                return body
            kind = "extract" if request.headers.get(_KIND_HEADER) == "extract" else "chat"
            call = _Call(self, board, kind, body)
            return await call.answer()
        except BaseException:
            self._running[board] -= 1
            raise

    async def _body(self, request: Request) -> bytes | Response:
        """The whole body, or the answer that refuses it."""
        length = request.headers.get("content-length", "0")
        too_long = _refusal(413, f"The request is longer than {self._body_limit} bytes.")
        if not length.isdigit() or int(length) > self._body_limit:
            return too_long
        try:
            body = await asyncio.wait_for(self._read(request), self._body_seconds)
        except asyncio.TimeoutError:
            return _refusal(408, "The request did not arrive in time.", "timeout")
        except ClientDisconnect:
            return _refusal(400, "The request broke off.")
        return too_long if body is None else body

    async def _read(self, request: Request) -> bytes | None:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._body_limit:
                return None
        return bytes(body)

    def done(self, board: str, served: Served) -> None:
        """A request has ended."""
        self._running[board] -= 1
        if self._on_served is not None:
            self._on_served(served)


class _Call:
    """One request of a board, counted as running until its answer is out."""

    def __init__(self, server: HttpRelay, board: str, kind: str, body: bytes) -> None:
        self._server = server
        self._board = board
        self._kind = kind
        self._body = body
        self._start = time.monotonic()
        self._first: float | None = None
        self._sent = 0
        self._ended = False

    async def answer(self) -> Response:
        reply = await self._server._relay.respond(self._kind, self._body)
        headers = {"Cache-Control": "no-store"}
        if reply.retry_after is not None:
            headers["Retry-After"] = str(round(reply.retry_after))
        if reply.status != 200:
            data = b"".join([piece async for piece in reply.pieces])
            self._sent = len(data)
            await self.end(reply)
            # 0: the provider was not reached at all.
            return Response(data, reply.status or 502, headers, "application/json")
        if wants_stream(self._body):
            return _Stream(self, reply, headers)
        return await self._whole(reply, headers)

    async def pieces(self, reply: RelayReply) -> AsyncIterator[bytes]:
        async for piece in reply.pieces:
            self._first = self._first or time.monotonic()
            self._sent += len(piece)
            yield piece

    async def _whole(self, reply: RelayReply, headers: dict[str, str]) -> Response:
        try:
            data = b"".join([piece async for piece in self.pieces(reply)])
        finally:
            await self.end(reply)
        value = whole_completion(data, str(self._server._relay.info()["model"]))
        return JSONResponse(value, 502 if "error" in value else 200, headers)

    async def end(self, reply: RelayReply) -> None:
        """Stop the provider and report, once."""
        if self._ended:
            return
        self._ended = True
        await reply.close()
        now = time.monotonic()
        first = None if self._first is None else self._first - self._start
        error = reply.error.message if reply.error else None
        status = reply.status
        self._server.done(
            self._board,
            Served(
                self._kind, status, len(self._body), self._sent, now - self._start, first, error
            ),
        )


class _Stream(StreamingResponse):
    """The event stream; ends the call also if the board hung up, even before the first piece."""

    def __init__(self, call: _Call, reply: RelayReply, headers: dict[str, str]) -> None:
        super().__init__(call.pieces(reply), 200, headers, "text/event-stream")
        self._call = call
        self._reply = reply

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._call.end(self._reply))


def wants_stream(body: bytes) -> bool:
    """True if the request asks for an event stream."""
    try:
        value = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and bool(value.get("stream"))


def whole_completion(events: bytes, model: str) -> dict[str, Any]:
    """One chat completion (or error) out of the relay's event stream."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    finish, usage = "stop", None
    for line in events.decode("utf-8").splitlines():
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line[6:])
        if "error" in chunk:
            return {"error": chunk["error"]}
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices", []):
            finish = choice.get("finish_reason") or finish
            _add_delta(message, calls, choice.get("delta", {}))
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {
        "id": "chatcmpl-relay",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


def _add_delta(
    message: dict[str, Any], calls: dict[int, dict[str, Any]], delta: dict[str, Any]
) -> None:
    for field in ("content", "reasoning_content"):
        if delta.get(field):
            message[field] = (message.get(field) or "") + delta[field]
    for part in delta.get("tool_calls", []):
        call = calls.setdefault(
            part["index"],
            {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
        )
        call["id"] = part.get("id") or call["id"]
        function = part.get("function", {})
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += function.get("arguments") or ""


class RelayServer:
    """Runs the application on an address until `stop`. Raises UserError if it is taken."""

    def __init__(self, application: HttpRelay, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            # From here on who connects is kept waiting, not refused.
            self._socket.listen(64)
        except OSError as error:
            self._socket.close()
            raise UserError(
                f"--listen {host}:{port}: {error.strerror or error}; take another address."
            ) from None
        self.host, self.port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            application.app,
            log_level="critical",
            access_log=False,
            lifespan="off",
            limit_concurrency=64,
            timeout_keep_alive=5,
            h11_max_incomplete_event_size=16384,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    async def serve(self) -> None:
        """Answer until stopped; Ctrl-C is raised again after the last connections are closed."""
        await self._server.serve([self._socket])

    def stop(self) -> None:
        """Let `serve` return."""
        self._server.should_exit = True
