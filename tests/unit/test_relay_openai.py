"""Provider `openai` against a real HTTP server: streams, refusals, broken answers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from unit.relay_rig import (
    FAST,
    KEY,
    Answer,
    Outcome,
    Seen,
    ask,
    fault,
    openai_provider,
    serving,
    sse,
    words,
)
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Limits, Relay, make_provider
from upyclaw_host.relay.provider import RetryPolicy

CASES = Path(__file__).parents[1] / "data" / "cases"


def cases(name: str) -> list[Any]:
    entries = json.loads((CASES / f"{name}.json").read_text())["cases"]
    return [pytest.param(e["input"], e["expected"], id=e["name"]) for e in entries]


def run(answers: Any, *requests: Any, **settings: Any) -> tuple[list[Outcome], list[Seen]]:
    """Serve `answers`, ask each request in turn (None: a plain one)."""

    async def go() -> tuple[list[Outcome], list[Seen]]:
        async with serving(answers) as server:
            relay = Relay(openai_provider(server.url, **settings))
            outcomes = [await ask(relay, r) for r in requests or (None,)]
            await relay.close()
            return outcomes, server.seen

    return asyncio.run(go())


def test_a_streamed_reply_reaches_the_board_word_for_word() -> None:
    (got,), (seen,) = run([words("Grüße, ", "世界 ", "😀")])
    assert (got.status, got.text, got.finish, got.done) == (200, "Grüße, 世界 😀", "stop", True)
    assert got.usage == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert "世界 😀".encode() in got.raw, "raw UTF-8, not escapes: every byte crosses a slow line"
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body["stream"] is True and seen.body["model"] == "m"
    assert seen.body["messages"] == [{"role": "user", "content": "hi"}]


def test_words_arrive_while_the_model_still_talks() -> None:
    first, second = ({"choices": [{"delta": {"content": t}}]} for t in ("one ", "two"))
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}

    async def go() -> None:
        async with serving([Answer(parts=sse(first, 0.6, second, end), chunked=True)]) as server:
            relay = Relay(openai_provider(server.url))
            reply = await relay.respond("chat", b'{"messages":[{"role":"user","content":"x"}]}')
            start = time.monotonic()
            piece = await anext(aiter(reply.pieces))
            assert b'"one "' in piece and time.monotonic() - start < 0.4
            await reply.close()

    asyncio.run(go())


def test_small_deltas_are_joined_and_large_ones_split() -> None:
    text = "né" * 300
    (got,), _ = run([words(*text)])
    events = got.raw.count(b"data: ")
    assert got.text == text and events < 20, events
    (got,), _ = run([words("字" * 2000)])
    assert got.text == "字" * 2000
    assert max(map(len, got.raw.split(b"\n\n"))) < 260


def test_emoji_halves_in_two_deltas_become_one_letter() -> None:
    (got,), _ = run([words("a \ud83d", "\ude00 b", " \ud83d", "!")])
    assert got.text == "a 😀 b \ufffd!"


@pytest.mark.parametrize(("given", "expected"), cases("B06")[:2])
def test_escaped_emoji_in_a_plain_body(given: Any, expected: Any) -> None:
    body = base64.b64decode(given["http_body_b64"])
    (got,), _ = run([Answer(parts=[body], length=len(body))])
    if "shown" in expected:
        assert got.text == expected["shown"]
        assert bytes.fromhex(expected["stored_bytes_contain_hex"]) in got.raw
    else:
        assert got.text in expected["text_is_one_of"]


@pytest.mark.parametrize(("given", "expected"), cases("B43"))
def test_success_status_with_something_else_inside(given: Any, expected: Any) -> None:
    body = given["body"].encode()
    (got,), seen = run([Answer(given["status"], [body], length=len(body))])
    wanted = expected["user_text_mentions"]
    if given["body"].startswith('{"model":"m","message"'):
        assert got.text == "hi" and got.finish == "stop"
        return
    assert got.error is not None and got.text == ""
    for word in {"Hotel login": "Hotel login", "empty answer": "empty answer"}:
        if word in wanted:
            assert word in got.error["message"]
    if wanted in ("rate limited", "not found", "Not Found"):
        assert wanted in got.error["message"]
    assert len(seen) == (3 if "429" in given["body"] else 1), "only what may pass is retried"


def test_wrong_key_is_told_without_the_key() -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}}
    (got,), seen = run([fault(401, body)])
    assert got.status == 401 and got.error is not None and got.error["kind"] == "auth"
    assert "OPENAI_API_KEY" in got.error["message"] and len(seen) == 1


def test_a_key_of_any_shape_is_never_repeated() -> None:
    key = "hunter2-of-a-private-server"
    for status in (400, 401, 404, 429, 500):
        (got,), _ = run([fault(status, {"error": {"message": f"no: {key}"}})], api_key=key)
        assert got.error is not None and key not in got.raw.decode()
        (got,), _ = run([fault(status, f"<html><title>{key}</title>")], api_key=key)
        assert got.error is not None and key not in got.raw.decode()
    for body in ({"error": {"message": f"no: {key}"}}, f"<title>{key}</title>", f"what, {key}?"):
        (got,), _ = run([fault(200, body)], api_key=key)
        assert got.error is not None and key not in got.raw.decode()


def test_rate_limit_waits_as_long_as_asked_then_goes_on() -> None:
    waits: list[float] = []

    async def go() -> None:
        answers = [fault(429, {"error": {"message": "slow"}}, retry_after="0.2"), words("ok")]
        async with serving(answers) as server:
            relay = Relay(openai_provider(server.url), on_wait=lambda s, e: waits.append(s))
            start = time.monotonic()
            got = await ask(relay)
            assert got.text == "ok" and time.monotonic() - start >= 0.2

    asyncio.run(go())
    assert waits == [0.2]


def test_rate_limit_beyond_our_patience_is_told_with_the_time() -> None:
    answer = fault(429, {"error": {"message": "quota"}}, retry_after="120")
    (got,), seen = run([answer])
    assert (got.status, got.retry_after, len(seen)) == (429, 120.0, 1)
    assert got.error is not None and got.error["kind"] == "rate"
    assert "120" in got.error["message"] and "quota" in got.error["message"]


def test_server_error_is_retried_and_its_page_never_shown() -> None:
    page = (
        "<html><head><title>502 Bad Gateway</title></head><body>" + "x" * 2000 + "</body></html>"
    )
    (got,), seen = run([fault(500, page), words("fine")])
    assert got.text == "fine" and len(seen) == 2
    (got,), seen = run([fault(500, page)])
    assert len(seen) == 3 and got.status == 500 and got.error is not None
    assert "xxx" not in got.error["message"] and "500" in got.error["message"]
    assert "/v1/chat/completions" in got.error["message"]


def test_unknown_model_names_the_url_and_the_setting() -> None:
    (got,), seen = run([fault(404, {"error": {"message": "model 'm' not found, try pulling it"}})])
    assert got.error is not None and got.error["kind"] == "request" and len(seen) == 1
    assert "404" in got.error["message"] and "base_url" in got.error["message"]
    assert "try pulling it" in got.error["message"]


@pytest.mark.parametrize(
    "answer",
    [
        words("half of it", finish=None, done=False),
        Answer(
            parts=sse({"choices": [{"delta": {"content": "half of it"}}]}, done=False), cut=True
        ),
        Answer(parts=[b'data: {"choices":[{"delta":{"content":"half of it"}}]}\n\ndata: {"ch']),
    ],
    ids=["no-end", "socket-closed", "in-mid-event"],
)
def test_a_cut_stream_ends_in_an_error_event(answer: Answer) -> None:
    (got,), seen = run([answer])
    assert got.status == 200 and got.text == "half of it" and not got.done
    assert got.error is not None and got.error["kind"] == "cut" and len(seen) == 1


def test_half_a_body_is_cut_too() -> None:
    (got,), _ = run([Answer(parts=[b'{"choices":[{"mess'], length=40)])
    assert got.error is not None and got.error["kind"] == "cut" and got.status == 0


@pytest.mark.parametrize("body", ['{"choices":null}', '{"choices":[]}', ""])
def test_nothing_is_empty_and_not_cut(body: str) -> None:
    (got,), _ = run([fault(200, body)])
    assert got.error is not None and got.error["kind"] == "empty"


def test_a_plain_body_needs_no_finish_reason() -> None:
    (got,), _ = run([fault(200, {"choices": [{"message": {"content": "whole"}}]})])
    assert got.text == "whole" and got.error is None and got.finish == "stop"


def test_error_event_in_mid_stream() -> None:
    event = {"error": {"message": "the GPU is gone", "code": 500}}
    (got,), _ = run([Answer(parts=sse({"choices": [{"delta": {"content": "a"}}]}, event))])
    assert got.text == "a" and got.error is not None and "GPU" in got.error["message"]


def test_empty_reply_is_an_error() -> None:
    (got,), _ = run([words()])
    assert got.status == 0 and got.error is not None and got.error["kind"] == "empty"


def test_silence_ends_at_the_limit_and_others_go_on() -> None:
    async def go() -> None:
        def reply(seen: Seen) -> Answer:
            if seen.body["messages"][0]["content"] == "hang":
                return Answer(parts=[30.0], chunked=True)
            return words("quick")

        async with serving(reply) as server:
            provider = openai_provider(server.url, RetryPolicy(retries=0))
            relay = Relay(provider, limits=Limits(first=0.5, idle=0.5, total=5))
            hang = {"messages": [{"role": "user", "content": "hang"}]}
            start = time.monotonic()
            slow, quick = await asyncio.gather(ask(relay, hang), ask(relay))
            assert quick.text == "quick"
            assert slow.error is not None and slow.error["kind"] == "timeout"
            assert slow.status == 0 and time.monotonic() - start < 3

    asyncio.run(go())


def test_silence_in_mid_stream_ends_at_the_limit() -> None:
    async def go() -> None:
        parts = [*sse({"choices": [{"delta": {"content": "so "}}]}, done=False), 30.0]
        async with serving([Answer(parts=parts, chunked=True)]) as server:
            relay = Relay(openai_provider(server.url), limits=Limits(first=5, idle=0.4, total=5))
            got = await ask(relay)
            assert got.text == "so " and got.error is not None
            assert got.error["kind"] == "timeout"

    asyncio.run(go())


def test_nobody_listens() -> None:
    async def go() -> Outcome:
        return await ask(Relay(openai_provider("http://127.0.0.1:9")))

    got = asyncio.run(go())
    assert got.status == 0 and got.error is not None and got.error["kind"] == "gone"
    assert "127.0.0.1:9/v1/chat/completions" in got.error["message"]
    assert "refused" in got.error["message"] and "openai.base_url" in got.error["message"]


def test_unknown_host() -> None:
    async def go() -> Outcome:
        provider = openai_provider("http://no-such-host.invalid", RetryPolicy(retries=0))
        return await ask(Relay(provider))

    got = asyncio.run(go())
    assert got.error is not None and got.error["kind"] == "gone"
    assert "no-such-host.invalid" in got.error["message"]


def test_closing_a_reply_hangs_up_on_the_provider() -> None:
    async def go() -> None:
        talk: list[Any] = []
        for _ in range(200):
            talk += [{"choices": [{"delta": {"content": "word " * 40}}]}, 0.02]
        async with serving([Answer(parts=sse(*talk), chunked=True)]) as server:
            relay = Relay(openai_provider(server.url))
            reply = await relay.respond("chat", b'{"messages":[{"role":"user","content":"x"}]}')
            await anext(aiter(reply.pieces))
            await reply.close()
            await asyncio.wait_for(server.closed_early.wait(), 3)

    asyncio.run(go())


# B44, B12: what the server refuses is changed once and remembered.


def test_max_tokens_is_renamed_once_and_remembered_for_all_kinds() -> None:
    given = json.loads((CASES / "B44.json").read_text())["cases"][0]["input"]
    refusal = given["server_if_body_has"]["max_tokens"]

    def reply(seen: Seen) -> Answer:
        if "max_tokens" in seen.body:
            return fault(refusal["status"], refusal["body"])
        return words("ok")

    async def go() -> None:
        async with serving(reply) as server:
            relay = Relay(openai_provider(server.url))
            request = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 50}
            assert (await ask(relay, request)).text == "ok"
            assert len(server.seen) == 2
            assert server.seen[1].body["max_completion_tokens"] == 50
            assert (await ask(relay, request, "extract")).text == "ok"
            assert (await ask(relay, request)).text == "ok"
            assert len(server.seen) == 4, "remembered: one request a turn from then on"
            assert all("max_tokens" not in s.body for s in server.seen[1:])

    asyncio.run(go())


def test_refused_temperature_and_stream_options_are_dropped() -> None:
    def reply(seen: Seen) -> Answer:
        if "stream_options" in seen.body:
            return fault(400, {"error": {"message": "Unknown field: stream_options"}})
        if "temperature" in seen.body:
            text = "Unsupported value: 'temperature' does not support 0.3 with this model."
            return fault(400, {"error": {"message": text, "param": "temperature"}})
        return words("ok")

    request = {"messages": [{"role": "user", "content": "x"}], "temperature": 0.3}
    got, seen = run(reply, request, request)
    assert [g.text for g in got] == ["ok", "ok"] and len(seen) == 4


def test_other_400_is_told_at_once() -> None:
    given = json.loads((CASES / "B44.json").read_text())["cases"][1]["input"]["server"]
    request = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    (got,), seen = run([fault(given["status"], given["body"])], request)
    assert len(seen) == 1 and got.error is not None
    assert got.error["kind"] == "context" and "context too long" in got.error["message"]


@pytest.mark.parametrize(
    ("setting", "refused"), [("null", None), ("empty", "")], ids=["null", "empty"]
)
def test_content_beside_tool_calls_is_switched_once(setting: str, refused: Any) -> None:
    entries = {
        e["name"]: e["input"] for e in json.loads((CASES / "B12.json").read_text())["cases"]
    }
    name = "server_refuses_null" if refused is None else "server_refuses_empty"
    told = entries[name]["server_answers_if_content_" + ("null" if refused is None else "empty")]

    def reply(seen: Seen) -> Answer:
        if seen.body["messages"][1]["content"] == refused:
            return fault(told["status"], told["body"])
        return words("answer")

    call = {"id": "c1", "function": {"name": "sqrt", "arguments": {"x": 169}}}
    request = {
        "messages": [
            {"role": "user", "content": "root?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "13"},
        ]
    }
    got, seen = run(reply, request, request, empty_content=setting)
    assert [g.text for g in got] == ["answer", "answer"] and len(seen) == 3
    sent = seen[-1].body["messages"][1]["tool_calls"][0]
    assert sent["type"] == "function" and sent["function"]["arguments"] == '{"x":169}'


def test_a_server_that_refuses_every_form_is_given_up() -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    request = {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ],
        "max_tokens": 9,
    }
    refusal = fault(400, {"error": {"message": "content of messages is not allowed"}})
    (got,), seen = run([refusal], request)
    assert len(seen) == 2 and got.status == 400 and got.error is not None
    assert "not allowed" in got.error["message"]


@pytest.mark.parametrize(("given", "expected"), cases("B12")[:4])
def test_content_forms_of_a_reply_are_all_read(given: Any, expected: Any) -> None:
    body = {"choices": [{"message": given["reply_message"], "finish_reason": "stop"}]}
    (got,), _ = run([fault(200, body)])
    assert got.text == expected["shown_text"]
    if "tool_run" in expected:
        assert got.calls[0]["name"] == expected["tool_run"][0]
        assert json.loads(got.calls[0]["arguments"]) == expected["tool_run"][1]


def test_streamed_tool_calls_of_untidy_servers() -> None:
    def delta(*calls: Any) -> Any:
        return {"choices": [{"delta": {"tool_calls": list(calls)}}]}

    untidy = [
        delta({"index": 0, "id": "a", "function": {"name": "one", "arguments": '{"p'}}),
        delta({"index": 0, "function": {"arguments": '":1}'}}),
        delta({"index": 0, "id": "b", "function": {"name": "two", "arguments": {"q": 2}}}),
        delta({"function": {"name": "three", "arguments": None}}),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ]
    (got,), _ = run([Answer(parts=sse(*untidy))])
    assert [c["name"] for c in got.calls.values()] == ["one", "two", "three"]
    assert [c["arguments"] for c in got.calls.values()] == ['{"p":1}', '{"q":2}', ""]
    ids = [c["id"] for c in got.calls.values()]
    assert ids[:2] == ["a", "b"] and ids[2] and len(set(ids)) == 3
    assert got.finish == "tool_calls"


def test_reasoning_is_its_own_field() -> None:
    think = {"choices": [{"delta": {"reasoning_content": "hm \ud83d\ude00"}}]}
    say = {"choices": [{"delta": {"content": "yes"}, "finish_reason": "length"}]}
    (got,), _ = run([Answer(parts=sse(think, say))])
    assert (got.reasoning, got.text, got.finish) == ("hm 😀", "yes", "length")


def test_settings_that_lack_are_named() -> None:
    from upyclaw_host.config import Config, OpenAISettings

    for settings, word in (
        (OpenAISettings(), "OPENAI_API_KEY"),
        (OpenAISettings(base_url="http://localhost:11434"), "--model"),
        (OpenAISettings(base_url="localhost:11434", model="m"), "openai.base_url"),
        (OpenAISettings(base_url="", model="m"), "openai.base_url"),
    ):
        with pytest.raises(UserError, match=word):
            make_provider("openai", Config(openai=settings))
    with pytest.raises(UserError, match="script:FILE"):
        make_provider("oracle", Config())


def test_record_holds_bodies_and_never_the_key(tmp_path: Path) -> None:
    from upyclaw_host.config import OpenAISettings
    from upyclaw_host.relay.openai_provider import OpenAIProvider
    from upyclaw_host.relay.provider import Recorder

    record = tmp_path / "record.jsonl"

    async def go() -> None:
        async with serving([fault(503, {}), words("ok")]) as server:
            settings = OpenAISettings(base_url=server.url, api_key=KEY, model="m")
            relay = Relay(OpenAIProvider(settings, Recorder(record), FAST))
            await ask(relay, kind="extract")

    asyncio.run(go())
    text = record.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["for"] for line in lines] == ["extract", "extract"]
    assert lines[0]["body"]["messages"] and isinstance(lines[0]["time"], int)
    assert KEY not in text and "sk-" not in text
