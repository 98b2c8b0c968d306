"""A provider made of sockets: plays an OpenAI-like or Anthropic server, byte by byte as told."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from upyclaw_host.config import AnthropicSettings, OpenAISettings
from upyclaw_host.relay import Relay
from upyclaw_host.relay.anthropic_provider import AnthropicProvider
from upyclaw_host.relay.openai_provider import OpenAIProvider
from upyclaw_host.relay.provider import Recorder, RetryPolicy

KEY = "sk-test-0123456789abcdefSECRET"
FAST = RetryPolicy(retries=2, pause=0.02, limit=2.0)


@dataclass
class Answer:
    """One HTTP answer. `parts` are sent as they are, a number among them is a pause in seconds."""

    status: int = 200
    parts: list[bytes | float] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    chunked: bool = False  # True: chunked coding with a proper end; else the socket is closed
    cut: bool = False  # chunked coding that breaks off
    length: int | None = None  # a Content-Length, honest or not


@dataclass
class Seen:
    """One request the server got."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def sse(*events: Any, done: bool = True) -> list[bytes | float]:
    """An event stream in OpenAI form; a number is a pause."""
    parts: list[bytes | float] = []
    for event in events:
        if isinstance(event, float):
            parts.append(event)
        else:
            parts.append(f"data: {json.dumps(event)}\n\n".encode())
    if done:
        parts.append(b"data: [DONE]\n\n")
    return parts


def words(*texts: str, finish: str | None = "stop", done: bool = True) -> Answer:
    """A streamed answer of these deltas."""
    events: list[Any] = [{"choices": [{"index": 0, "delta": {"content": t}}]} for t in texts]
    if finish:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        events.append({"choices": [], "usage": usage})
    return Answer(parts=sse(*events, done=done), chunked=True)


def fault(status: int, body: Any, **headers: str) -> Answer:
    """An error answer; `body` is an object or text."""
    text = body if isinstance(body, str) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, [text.encode()], named, length=len(text.encode()))


class FakeServer:
    """Answers each request with `reply(seen)`, or with the next of a list (the last repeats)."""

    def __init__(self, reply: Callable[[Seen], Answer] | list[Answer]) -> None:
        self.seen: list[Seen] = []
        self.closed_early = asyncio.Event()
        self._reply = reply
        self._server: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen = await self._read(reader)
            self.seen.append(seen)
            if callable(self._reply):
                answer = self._reply(seen)
            else:
                answer = self._reply[min(len(self.seen), len(self._reply)) - 1]
            await self._write(writer, answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed_early.set()
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Seen(first.split()[1], headers, json.loads(body))

    async def _write(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        headers = {"content-type": "text/event-stream", **answer.headers}
        chunked = answer.chunked or answer.cut
        if answer.length is not None:
            headers["content-length"] = str(answer.length)
        if chunked:
            headers["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {answer.status} X", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        for part in answer.parts:
            if isinstance(part, (int, float)):
                await writer.drain()
                await asyncio.sleep(part)
                continue
            writer.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
            await writer.drain()
        if chunked and not answer.cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def serving(reply: Callable[[Seen], Answer] | list[Answer]) -> AsyncIterator[FakeServer]:
    server = FakeServer(reply)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def openai_provider(url: str, retry: RetryPolicy = FAST, **settings: Any) -> OpenAIProvider:
    values = {"api_key": KEY, "model": "m", "timeout": 5, **settings}
    made = OpenAISettings(base_url=url, **values)
    return OpenAIProvider(made, Recorder(None), retry)


def anthropic_provider(url: str, retry: RetryPolicy = FAST, **settings: Any) -> AnthropicProvider:
    made = AnthropicSettings(base_url=url, api_key=KEY, **{"timeout": 5, **settings})
    return AnthropicProvider(made, Recorder(None), retry)


@dataclass
class Outcome:
    """A whole reply as the board would read it."""

    status: int
    raw: bytes
    text: str = ""
    reasoning: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: str | None = None
    usage: dict[str, int] | None = None
    error: dict[str, str] | None = None
    done: bool = False
    retry_after: float | None = None


async def ask(relay: Relay, request: dict[str, Any] | None = None, kind: str = "chat") -> Outcome:
    """One request through the relay."""
    request = request or {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    reply = await relay.respond(kind, json.dumps(request).encode())
    raw = b"".join([piece async for piece in reply.pieces])
    await reply.close()
    return outcome(reply.status, raw, reply.retry_after)


def outcome(status: int, raw: bytes, retry_after: float | None = None) -> Outcome:
    """Read the bytes strictly: compact events, whole UTF-8, short sentences, never the key."""
    assert KEY.encode() not in raw and KEY[:12].encode() not in raw
    found = Outcome(status, raw, retry_after=retry_after)
    if status != 200:
        found.error = json.loads(raw)["error"]
    else:
        for event in raw.decode("utf-8").split("\n\n"):
            if event.startswith("data: "):
                _event(found, event[6:])
    if found.error is not None:
        message = found.error["message"]
        assert 0 < len(message) <= 200 and "<" not in message and "\n" not in message
    return found


def _event(found: Outcome, data: str) -> None:
    assert not found.done
    if data == "[DONE]":
        found.done = True
        return
    chunk = json.loads(data)
    if "error" in chunk:
        found.error = chunk["error"]
        return
    found.usage = chunk.get("usage", found.usage)
    choice = chunk["choices"][0]
    found.finish = choice.get("finish_reason", found.finish)
    delta = choice["delta"]
    found.text += delta.get("content", "")
    found.reasoning += delta.get("reasoning_content", "")
    for call in delta.get("tool_calls", []):
        slot = found.calls.setdefault(call["index"], {"arguments": ""})
        slot["arguments"] += call["function"]["arguments"]
        if "id" in call:
            slot.update(id=call["id"], name=call["function"]["name"])
