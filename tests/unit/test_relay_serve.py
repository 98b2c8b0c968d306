"""The link service: headers, cancelling, a request in place of an older one, a dead link."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from unit.relay_rig import Outcome, outcome
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Relay, Served, serve_link
from upyclaw_host.relay.errors import ProviderError
from upyclaw_host.relay.provider import NO_RETRY, Item


class FakeLink:
    """A link in memory; `wait` lets a test look at the whole messages the board would get."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.messages: dict[int, list[bytes]] = {}
        self.arrived = asyncio.Event()
        self._handlers: dict[int, Callable[[bytes], Any]] = {}
        self._parts: dict[int, bytes] = {}

    def on(self, stream: int, callback: Callable[[bytes], Any]) -> None:
        self._handlers[stream] = callback

    async def send(self, stream: int, data: bytes, end: bool = True) -> None:
        await asyncio.sleep(0)
        if self.closed.is_set():
            raise UserError("The port is gone.", 1)
        self._parts[stream] = self._parts.get(stream, b"") + data
        if end:
            self.messages.setdefault(stream, []).append(self._parts.pop(stream))
            self.arrived.set()

    def board_sends(self, stream: int, header: Any, body: Any = None) -> None:
        text = json.dumps(header) + "\n" + json.dumps(body) if body else json.dumps(header)
        self._handlers[stream](text.encode())

    async def wait(self, stream: int, count: int) -> list[tuple[Any, Outcome]]:
        async def go() -> None:
            while len(self.messages.get(stream, [])) < count:
                self.arrived.clear()
                await self.arrived.wait()

        await asyncio.wait_for(go(), 3)
        # The line in the log follows the end of the message; when, differs between Pythons.
        await asyncio.sleep(0.02)
        found = []
        for message in self.messages[stream]:
            head, _, body = message.partition(b"\n")
            header = json.loads(head)
            found.append((header, outcome(header["status"], body)))
        return found


class TalkingProvider:
    """Says the words of the last user message; stops at `hang`, fails at `fail`."""

    name = "talk"
    model = "t"
    context = 100
    retry = NO_RETRY

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.stopped = 0

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        self.kinds.append(kind)
        try:
            for word in request["messages"][-1]["content"].split():
                if word == "fail":
                    raise ProviderError(429, "Too many requests", "rate", 7.4)
                if word == "crash":
                    raise RuntimeError("a bug in a library with key sk-abcdef0123456789")
                yield {"choices": [{"delta": {"content": word + " "}}]}
                if word == "hang":
                    await asyncio.sleep(60)
            yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped += 1
            raise


def body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def serve(test: Callable[[FakeLink, TalkingProvider, list[Served]], Any]) -> None:
    async def go() -> None:
        link, provider, log = FakeLink(), TalkingProvider(), []
        service = asyncio.create_task(serve_link(link, Relay(provider), log.append))
        await asyncio.sleep(0)
        await test(link, provider, log)
        link.closed.set()
        await asyncio.wait_for(service, 2)

    asyncio.run(go())


def test_both_streams_are_served_side_by_side() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        link.board_sends(2, {"id": 7, "kind": "chat"}, body("hello there"))
        link.board_sends(3, {"id": 8, "kind": "extract"}, body("facts"))
        ((header, chat),) = await link.wait(2, 1)
        ((extract_header, extract),) = await link.wait(3, 1)
        assert header == {"id": 7, "status": 200, "retry_after": None}
        assert chat.text == "hello there " and chat.done and chat.finish == "stop"
        assert extract_header["id"] == 8 and extract.text == "facts "
        assert sorted(provider.kinds) == ["chat", "extract"]
        assert {s.kind for s in log} == {"chat", "extract"} and all(s.error is None for s in log)
        assert all(s.received > 30 and s.sent > 30 for s in log)

    serve(test)


def test_a_refusal_carries_status_and_wait() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        link.board_sends(2, {"id": 1, "kind": "chat"}, body("fail"))
        ((header, got),) = await link.wait(2, 1)
        assert header == {"id": 1, "status": 429, "retry_after": 7}
        assert got.error == {"message": "Too many requests.", "kind": "rate"}
        assert log[0].error == "Too many requests."

    serve(test)


def test_a_crash_in_a_provider_is_a_sentence_and_the_next_request_works() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        link.board_sends(2, {"id": 1, "kind": "chat"}, body("crash"))
        link.board_sends(3, {"id": 2, "kind": "extract"}, body("two crash"))
        ((_, got),) = await link.wait(2, 1)
        assert got.error is not None and "RuntimeError" in got.error["message"]
        ((_, got),) = await link.wait(3, 1)
        assert got.text == "two " and got.error is not None and not got.done
        assert b"sk-" not in got.raw
        link.board_sends(2, {"id": 3, "kind": "chat"}, body("fine"))
        assert (await link.wait(2, 2))[1][1].text == "fine "

    serve(test)


def test_cancel_stops_the_provider_and_ends_the_message() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        link.board_sends(2, {"id": 5, "kind": "chat"}, body("so hang"))
        await asyncio.sleep(0.15)
        link.board_sends(0, {"op": "cancel", "id": 4})
        await asyncio.sleep(0.05)
        assert provider.stopped == 0, "another request's id"
        link.board_sends(0, {"op": "cancel", "id": 5})
        ((_, got),) = await link.wait(2, 1)
        assert got.text.startswith("so ") and not got.done and provider.stopped == 1
        link.board_sends(2, {"id": 6, "kind": "chat"}, body("next"))
        header, got = (await link.wait(2, 2))[1]
        assert header["id"] == 6 and got.text == "next "

    serve(test)


def test_a_new_request_replaces_the_running_one() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        link.board_sends(2, {"id": 1, "kind": "chat"}, body("hang"))
        await asyncio.sleep(0.1)
        link.board_sends(2, {"id": 2, "kind": "chat"}, body("second"))
        first, second = await link.wait(2, 2)
        assert first[0]["id"] == 1 and second[0]["id"] == 2 and second[1].text == "second "
        assert provider.stopped == 1

    serve(test)


def test_a_pulled_cable_stops_everything() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        link.board_sends(2, {"id": 1, "kind": "chat"}, body("a hang"))
        link.board_sends(3, {"id": 2, "kind": "extract"}, body("b hang"))
        await asyncio.sleep(0.1)
        link.closed.set()
        await asyncio.sleep(0.1)
        assert provider.stopped == 2
        assert not link.messages, "nothing is sent into a dead link"

    serve(test)


def test_garbage_from_the_board_is_ignored() -> None:
    async def test(link: FakeLink, provider: TalkingProvider, log: list[Served]) -> None:
        for message in (b"", b"\xff\xfe", b"[]\n{}", b'{"kind":"chat"}\n{}'):
            link._handlers[2](message)
        link._handlers[0](b"not json")
        link._handlers[0](b"[1]")
        link.board_sends(2, {"id": 9, "kind": "who knows"}, body("still here"))
        header, got = (await link.wait(2, 1))[0]
        assert header["id"] == 9 and got.text == "still here " and provider.kinds == ["chat"]

    serve(test)


def test_serving_may_begin_before_hello() -> None:
    async def go() -> None:
        link = FakeLink()
        link.closed.set()
        service = asyncio.create_task(serve_link(link, Relay(TalkingProvider())))
        await asyncio.sleep(0.1)
        assert not service.done()
        link.closed.clear()
        link.board_sends(2, {"id": 1, "kind": "chat"}, body("early"))
        assert (await link.wait(2, 1))[0][1].text == "early "
        await asyncio.sleep(0.05)
        link.closed.set()
        await asyncio.wait_for(service, 1)

    asyncio.run(go())
