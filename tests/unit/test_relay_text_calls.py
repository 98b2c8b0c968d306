"""Tool calls that a model wrote as text: what is one, what stays text, what the board gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from unit.relay_rig import Outcome, ask
from upyclaw_host.relay import Relay
from upyclaw_host.relay.errors import ProviderError
from upyclaw_host.relay.provider import NO_RETRY, Item

NAMES = ("get_time", "memory_recall", "memory_store")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES]

RECALL = '{"name": "memory_recall", "arguments": {"query": "tea"}}'
TIME = '{"name": "get_time", "arguments": {}}'


class WritingProvider:
    """Says a text in pieces of `size` characters; `more` are chunks behind it."""

    name = "writing"
    model = "m"
    context = 100
    retry = NO_RETRY

    def __init__(self, text: str, size: int, *more: Item, finish: str = "stop") -> None:
        self._chunks: list[Item] = [
            {"choices": [{"delta": {"content": text[i : i + size]}}]}
            for i in range(0, len(text), size)
        ]
        self._chunks += more
        self._chunks.append({"choices": [{"delta": {}, "finish_reason": finish}]})
        self.told: list[int] = []

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        for number, chunk in enumerate(self._chunks):
            if chunk == {"fail": True}:
                raise ProviderError(0, "The answer broke off.", "cut")
            self.told.append(number)
            yield chunk


def say(
    text: str, *more: Item, size: int = 7, tools: Any = TOOLS, finish: str = "stop"
) -> Outcome:
    provider = WritingProvider(text, size, *more, finish=finish)
    request = {"messages": [{"role": "user", "content": "hi"}], "tools": tools}
    return asyncio.run(ask(Relay(provider), request))


def calls(got: Outcome) -> list[tuple[str, Any]]:
    return [(call["name"], json.loads(call["arguments"])) for call in got.calls.values()]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        RECALL,
        f"\n  {RECALL}\n",
        f"```json\n{RECALL}\n```",
        f"```\n{RECALL}\n```",
        f"```tool_call\n{RECALL}\n```\n",
        f"<tool_call>\n{RECALL}\n</tool_call>",
        f"[TOOL_CALLS] [{RECALL}]",
        f"<|python_tag|>{RECALL}",
        f"[{RECALL}]",
        '{"name":"memory_recall","parameters":{"query":"tea"}}',
        '{"arguments":{"query":"tea"},"name":"memory_recall"}',
        '{"tool":"memory_recall","args":{"query":"tea"}}',
        '{"function":"memory_recall","input":{"query":"tea"}}',
        '{"name":"memory_recall","arguments":"{\\"query\\":\\"tea\\"}"}',
        '{"type":"function","function":{"name":"memory_recall","arguments":{"query":"tea"}}}',
        '{"tool_calls":[{"id":"1","function":{"name":"memory_recall",'
        '"arguments":"{\\"query\\":\\"tea\\"}"}}]}',
    ],
)
def test_a_text_that_is_nothing_but_a_call_is_the_call(text: str, size: int) -> None:
    got = say(text, size=size)
    assert calls(got) == [("memory_recall", {"query": "tea"})]
    assert got.text == "" and got.finish == "tool_calls" and got.done
    assert got.calls[0]["id"].startswith("call_")


def test_several_calls_keep_their_order_and_get_ids_of_their_own() -> None:
    for text in (
        f"<tool_call>{TIME}</tool_call>\n<tool_call>{RECALL}</tool_call>",
        f"```json\n{TIME}\n{RECALL}\n```",
        f"[{TIME}, {RECALL}]",
    ):
        got = say(text)
        assert calls(got) == [("get_time", {}), ("memory_recall", {"query": "tea"})], text
        assert got.calls[0]["id"] != got.calls[1]["id"]


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        "The time is noon.",
        f"I would call {TIME} now.",
        f"Let me look.\n```json\n{RECALL}\n```",
        f"```json\n{TIME}\n```\nThe time is 12:00.",
        '{"name": "Ada", "age": 36}',
        '{"name": "weather", "arguments": {}}',
        '{"temperature": 20, "name": "get_time"}',
        '{"name": "get_time", "arguments": [1]}',
        '{"name": "get_time", "arguments": {}',
        f'{TIME} {{"name": "weather"}}',
        "```python\nprint({})\n```",
        "```json\n[1, 2]\n```",
        "[1] is a footnote",
        "[]",
        "```",
        "[" * 5000,
        '{"name": "memory_store", "arguments": {"content": "' + "x" * 9000 + '"}}',
        ",".join([TIME] * 9),
    ],
)
def test_everything_else_stays_the_text_it_is(text: str, size: int) -> None:
    got = say(text, size=size)
    assert got.text == text and got.calls == {} and got.finish == "stop"


def test_doubled_braces_are_a_call() -> None:
    # A real reply: the model's template shows the form with two braces.
    text = '{{"name": "get_time", "arguments": {"zone": "UTC"}}}'
    got = say(text)
    assert got.text == "" and calls(got) == [("get_time", {"zone": "UTC"})]
    # It miscounts them, too.
    assert calls(say(text + "}")) == [("get_time", {"zone": "UTC"})]
    got = say(text[:-1])
    assert got.text == text[:-1] and got.calls == {}


def test_without_offered_tools_a_call_is_a_text() -> None:
    for tools in (None, [], [{"type": "function"}], ["get_time"]):
        got = say(TIME, tools=tools)
        assert got.text == TIME and got.calls == {}


def test_text_that_cannot_be_a_call_is_not_held_back() -> None:
    async def go(text: str) -> int:
        """Chunks of the reply that were needed for its first piece."""
        provider = WritingProvider(text, 1)
        request = {"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}
        reply = await Relay(provider).respond("chat", json.dumps(request).encode())
        provider.told.clear()
        first = await anext(aiter(reply.pieces))
        assert b'"content"' in first
        await reply.close()
        return len(provider.told)

    long = " word" * 400
    for start in ("Well", "```python", '{"temperature": 1', "[see", "{x", "<b>"):
        assert asyncio.run(go(start + long)) < 500, start


def test_real_calls_and_thoughts_pass_and_a_cut_reply_keeps_its_words() -> None:
    real = {"index": 0, "id": "c1", "function": {"name": "get_time", "arguments": "{}"}}
    got = say('{"name"', {"choices": [{"delta": {"tool_calls": [real]}}]}, finish="tool_calls")
    assert got.text == '{"name"' and calls(got) == [("get_time", {})]
    got = say("", {"choices": [{"delta": {"reasoning_content": "so"}}]}, *_pieces(TIME))
    assert got.reasoning == "so" and calls(got) == [("get_time", {})]
    got = say('{"name": "get_time", "argu', finish="length")
    assert got.text == '{"name": "get_time", "argu' and got.finish == "length"
    got = say('{"name": "get_time"', {"fail": True})
    assert got.error is not None and got.error["kind"] == "cut" and got.calls == {}


def _pieces(text: str) -> list[Item]:
    return [{"choices": [{"delta": {"content": c}}]} for c in text]
