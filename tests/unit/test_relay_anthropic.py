"""Provider `anthropic`: the translation both ways, and a real HTTP server in the API's form."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as generate
from hypothesis import strategies as st

from unit.relay_rig import KEY, Answer, Outcome, Seen, anthropic_provider, ask, fault, serving
from upyclaw_host.config import Config
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Relay, make_provider
from upyclaw_host.relay.anthropic_dialect import AnthropicReader, to_anthropic
from upyclaw_host.relay.dialect import completion_chunks

CASES = Path(__file__).parents[1] / "data" / "cases"


def case(name: str, index: int) -> tuple[Any, Any]:
    entry = json.loads((CASES / f"{name}.json").read_text())["cases"][index]
    return entry["input"], entry["expected"]


def stream(*events: dict[str, Any], end: bool = True) -> Answer:
    """Events in the API's own form, with event names, ping and the closing events."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 11}}}
    last = [{"type": "message_stop"}] if end else []
    parts: list[bytes | float] = []
    for event in [start, {"type": "ping"}, *events, *last]:
        parts.append(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    return Answer(parts=parts, chunked=True)


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def said(*texts: str) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": t} for t in texts]
    return block(0, {"type": "text", "text": ""}, *deltas)


def stop(reason: str) -> dict[str, Any]:
    delta = {"stop_reason": reason}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}


def run(answers: Any, *requests: Any, **settings: Any) -> tuple[list[Outcome], list[Seen]]:
    async def go() -> tuple[list[Outcome], list[Seen]]:
        async with serving(answers) as server:
            relay = Relay(anthropic_provider(server.url, **settings))
            outcomes = [await ask(relay, r) for r in requests or (None,)]
            await relay.close()
            return outcomes, server.seen

    return asyncio.run(go())


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "clock",
            "description": "The time.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]


def test_text_is_streamed_in_the_board_dialect() -> None:
    (got,), (seen,) = run([stream(*said("Grüße ", "😀"), stop("end_turn"))])
    assert (got.text, got.finish, got.done) == ("Grüße 😀", "stop", True)
    assert got.usage == {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    assert seen.path == "/v1/messages" and any(KEY in v for v in seen.headers.values())
    assert seen.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert seen.body["stream"] is True and seen.body["max_tokens"] == 4096


def test_tools_go_out_and_calls_come_back() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "set_pin", "input": {}}
    bare = {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}}
    pieces = [{"type": "input_json_delta", "partial_json": p} for p in ("", '{"pin"', ":2}")]
    events = [*said("Well."), *block(1, call, *pieces), *block(2, bare), stop("tool_use")]
    request = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "time?"},
        ],
        "tools": TOOLS,
        "tool_choice": "required",
        "temperature": 1.4,
        "max_tokens": 99,
        "stop": "END",
    }
    (got,), (seen,) = run([stream(*events)], request)
    assert got.text == "Well." and got.finish == "tool_calls"
    assert got.calls[0] == {"id": "toolu_1", "name": "set_pin", "arguments": '{"pin":2}'}
    assert got.calls[1] == {"id": "toolu_2", "name": "clock", "arguments": "{}"}
    assert seen.body["system"] == "Be brief." and seen.body["max_tokens"] == 99
    assert seen.body["tools"][0]["input_schema"] == {"type": "object", "properties": {}}
    assert seen.body["tool_choice"] == {"type": "any"} and seen.body["temperature"] == 1
    assert seen.body["stop_sequences"] == ["END"]


def test_results_of_one_turn_are_one_user_message_before_the_text() -> None:
    calls = [
        {"id": f"c {n}", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
        for n in (1, 2)
    ]
    body = to_anthropic(
        {
            "messages": [
                {"role": "user", "content": "time?"},
                {"role": "assistant", "content": "", "tool_calls": calls},
                {"role": "tool", "tool_call_id": "c 1", "content": "12:00"},
                {"role": "tool", "tool_call_id": "c 2", "content": ""},
                {"role": "user", "content": "and?"},
            ]
        },
        100,
    )
    user, assistant, results = body["messages"]
    assert [b["type"] for b in assistant["content"]] == ["tool_use", "tool_use"]
    assert [b["id"] for b in assistant["content"]] == ["c_1", "c_2"]
    assert [b.get("content") or b.get("text") for b in results["content"]] == [
        "12:00",
        "(no output)",
        "and?",
    ]
    assert user["role"] == results["role"] == "user"


def test_blank_blocks_are_left_out() -> None:
    given, expected = case("B40", 0)
    first = [*block(0, given["reply"]["content"][0]), *block(1, given["reply"]["content"][1])]
    (got,), _ = run([stream(*first, stop("tool_use"))])
    assert got.text == "" and got.calls[0]["name"] == "clock"
    call = got.calls[0]
    function = {"name": call["name"], "arguments": call["arguments"]}
    replay = {
        "messages": [
            {"role": "user", "content": "time?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call["id"], "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call["id"], "content": given["tool_results"][0]},
        ]
    }
    body = to_anthropic(replay, 100)
    check(body["messages"])
    wanted = expected["second_request"]["tool_result_content"]
    assert body["messages"][2]["content"][0]["content"] == wanted


def test_cut_by_the_token_limit_is_marked() -> None:
    given, expected = case("B17", 3)
    reply = given["reply"]
    (got,), _ = run([stream(*said(reply["content"][0]["text"]), stop(reply["stop_reason"]))])
    assert got.text.startswith(expected["shown_starts_with"]) and got.finish == "length"
    # The same as one body, as some gateways send it.
    (got,), _ = run([fault(200, reply)])
    assert got.text.startswith(expected["shown_starts_with"]) and got.finish == "length"


def test_thinking_is_not_answer_text() -> None:
    think = block(
        0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm"}
    )
    (got,), _ = run([stream(*think, *said("yes"), stop("end_turn"))])
    assert (got.reasoning, got.text) == ("hm", "yes")


def test_overload_is_retried_refusals_are_not() -> None:
    busy = fault(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})
    (got,), seen = run([busy, stream(*said("ok"), stop("end_turn"))])
    assert got.text == "ok" and len(seen) == 2
    body = {
        "type": "error",
        "error": {"type": "authentication_error", "message": "invalid x-api-key"},
    }
    (got,), seen = run([fault(401, body)])
    assert got.error is not None and got.error["kind"] == "auth" and len(seen) == 1
    assert "ANTHROPIC_API_KEY" in got.error["message"]


def test_error_event_and_cut_in_mid_stream() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    (got,), _ = run([stream(*said("so"), event)])
    assert got.text == "so" and got.error is not None and "Overloaded" in got.error["message"]
    (got,), _ = run([stream(*said("so"), end=False)])
    assert got.text == "so" and got.error is not None and got.error["kind"] == "cut"


def test_web_page_and_foreign_json() -> None:
    (got,), _ = run([fault(200, "<html><title>Hotel login</title></html>")])
    assert got.error is not None and got.error["kind"] == "html"
    assert "Hotel login" in got.error["message"]
    (got,), seen = run([fault(200, {"choices": []})])
    assert got.error is not None and len(seen) == 1


def test_refused_temperature_is_dropped_and_remembered() -> None:
    def reply(seen: Seen) -> Answer:
        if "temperature" in seen.body:
            error = {"type": "invalid_request_error", "message": "temperature is deprecated"}
            return fault(400, {"type": "error", "error": error})
        return stream(*said("ok"), stop("end_turn"))

    request = {"messages": [{"role": "user", "content": "x"}], "temperature": 0.3}
    got, seen = run(reply, request, request)
    assert [g.text for g in got] == ["ok", "ok"] and len(seen) == 3


def test_key_must_be_there() -> None:
    with pytest.raises(UserError, match="ANTHROPIC_API_KEY"):
        make_provider("anthropic", Config())


_TEXT = st.sampled_from(["", "  ", "hello", "世界 😀", "\n", "a "])
_CALL = st.builds(
    lambda n, a: {"id": f"c{n}", "function": {"name": "f", "arguments": a}},
    st.integers(0, 5),
    st.sampled_from(["", "{}", '{"a":1}', '{"a":', "[1]", None, {"b": 2}, [{"c": 3}]]),
)
_MESSAGE = st.one_of(
    st.builds(lambda t: {"role": "user", "content": t}, _TEXT),
    st.builds(lambda t: {"role": "user", "content": [{"type": "text", "text": t}]}, _TEXT),
    st.builds(
        lambda t, c: {"role": "assistant", "content": t, "tool_calls": c},
        st.one_of(_TEXT, st.none()),
        st.lists(_CALL, max_size=2, unique_by=lambda c: str(c["id"])),
    ),
    st.builds(
        lambda n, t: {"role": "tool", "tool_call_id": f"c{n}", "content": t},
        st.integers(0, 5),
        _TEXT,
    ),
    st.builds(lambda t: {"role": "system", "content": t}, _TEXT),
)


def check(made: list[dict[str, Any]]) -> None:
    """What the messages API refuses: B40, B41, unpaired calls."""
    assert all(m["content"] for m in made)
    assert not made or made[0]["role"] == "user"
    assert all(a["role"] != b["role"] for a, b in pairwise(made))
    open_ids: list[str] = []
    for message in made:
        blocks = message["content"]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        assert sorted(results) == sorted(open_ids), "every call has its result in the next message"
        kinds = [b["type"] for b in blocks]
        assert kinds == sorted(kinds, key=lambda k: k != "tool_result"), "results come first"
        assert all(b["text"].strip() for b in blocks if b["type"] == "text")
        open_ids = [b["id"] for b in blocks if b["type"] == "tool_use"]
        assert all(isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use")
    assert not open_ids


@generate(st.lists(_MESSAGE, min_size=1, max_size=12))
def test_whatever_the_board_sends_the_request_is_valid(messages: list[dict[str, Any]]) -> None:
    check(to_anthropic({"messages": messages}, 100)["messages"])


def test_the_openai_and_the_anthropic_form_of_one_answer_give_the_same_chunks() -> None:
    openai_form = {
        "choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1},
    }
    anthropic_form = {
        "type": "message",
        "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 2, "output_tokens": 1},
    }
    assert AnthropicReader("").feed(anthropic_form) == list(completion_chunks(openai_form, ""))
