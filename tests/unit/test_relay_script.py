"""Provider `script:FILE`, the form of replies for the board, and the device's reader of it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as generate
from hypothesis import strategies as st

from unit.relay_rig import KEY, Outcome, ask, outcome
from upyclaw.llm.errors import LLMError
from upyclaw.llm.reader import ReplyReader
from upyclaw_host.config import Config
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Relay, make_provider
from upyclaw_host.relay.dialect import Delta, join_surrogates
from upyclaw_host.relay.errors import MESSAGE_LIMIT, http_error, sentence
from upyclaw_host.relay.relay import Pacer, split_text


def completion(text: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **more}
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6},
    }


def script(folder: Path, *lines: Any) -> Path:
    path = folder / "script.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    return path


def play(path: Path, kinds: str = "c", record: Path | None = None) -> list[Outcome]:
    """One request for each letter of `kinds`: c = chat, e = extract."""

    async def go() -> list[Outcome]:
        relay = Relay(make_provider(f"script:{path}", Config(), record=record))
        names = {"c": "chat", "e": "extract"}
        return [await ask(relay, kind=names[kind]) for kind in kinds]

    return asyncio.run(go())


def test_lines_are_taken_in_order_within_their_kind(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        {"for": "chat", "body": completion("one")},
        {"for": "extract", "body": completion("[]"), "repeat": True},
        {"for": "chat", "body": completion("two")},
    )
    got = play(path, "ececce")
    assert [g.text for g in got] == ["[]", "one", "[]", "two", "", "[]"]
    assert got[4].status == 503 and got[4].error is not None
    assert "no more replies" in got[4].error["message"]
    assert got[1].usage == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


def test_delay_and_pace_are_kept(tmp_path: Path) -> None:
    line = {"for": "chat", "delay_ms": 150, "pace_ms": 60, "body": completion("a b c d")}
    start = time.monotonic()
    (got,) = play(script(tmp_path, line))
    assert got.text == "a b c d" and time.monotonic() - start > 0.35
    assert got.raw.count(b"data: ") >= 5, "a slow reply is not held back"


def test_a_raw_stream_goes_through_byte_for_byte(tmp_path: Path) -> None:
    raw = 'data: {"choices":[{"delta":{"content":"\\ud83d\\ude00 hal"}}]}\r\n\r\ndata: {"cho'

    async def go() -> bytes:
        relay = Relay(make_provider(f"script:{script(tmp_path, {'for': 'chat', 'body': raw})}"))
        reply = await relay.respond("chat", b'{"messages":[{"role":"user","content":"x"}]}')
        assert reply.status == 200
        return b"".join([piece async for piece in reply.pieces])

    assert asyncio.run(go()) == raw.encode()


@pytest.mark.parametrize(
    ("line", "status", "kind", "word"),
    [
        ({"body": "<html><title>Hotel login</title></html>"}, 0, "html", "Hotel login"),
        ({"body": ""}, 0, "empty", "empty"),
        ({"body": {"choices": []}}, 0, "empty", "empty"),
        ({"body": {"error": {"message": "rate limited", "code": 429}}}, 429, "rate", "limited"),
        ({"status": 401, "body": {"error": {"message": "bad key"}}}, 401, "auth", "bad key"),
        ({"status": 500, "body": "<html>" + "x" * 3000 + "</html>"}, 500, "server", "500"),
        ({"status": 429, "retry_after": 7, "body": {}}, 429, "rate", "7 s"),
        (
            {"status": 400, "body": {"error": {"code": "context_length_exceeded"}}},
            400,
            "context",
            "/new",
        ),
    ],
)
def test_faults_are_told_as_the_provider_would(
    tmp_path: Path, line: Any, status: int, kind: str, word: str
) -> None:
    (got,) = play(script(tmp_path, {"for": "chat", **line}))
    assert got.error is not None
    assert (got.status, got.error["kind"]) == (status, kind) and word in got.error["message"]
    assert got.retry_after == line.get("retry_after")


def test_an_anthropic_body_is_read_too(tmp_path: Path) -> None:
    body = {
        "type": "message",
        "content": [{"type": "tool_use", "id": "t1", "name": "clock", "input": {"z": 1}}],
        "stop_reason": "tool_use",
    }
    (got,) = play(script(tmp_path, {"for": "chat", "body": body}))
    assert got.finish == "tool_calls" and json.loads(got.calls[0]["arguments"]) == {"z": 1}


def test_record_has_every_request(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    path = script(tmp_path, {"for": "chat", "body": completion("ok"), "repeat": True})
    play(path, "cec", record)
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert [line["for"] for line in lines] == ["chat", "extract", "chat"]
    assert lines[0]["body"]["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"for":"chat","body":{}}\n{"for":"chat",', "line 2: not JSON"),
        ('{"for":"talk","body":{}}', '"for" must be'),
        ('{"for":"chat"}', "line 1"),
        ('{"for":"chat","body":{},"status":"200"}', '"status"'),
        ('{"for":"chat","body":{},"delay_ms":-1}', '"delay_ms"'),
    ],
)
def test_a_bad_script_is_named_with_file_and_line(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        make_provider(f"script:{path}", Config())
    assert word in caught.value.message and "bad.jsonl" in caught.value.message


def test_missing_script_and_unwritable_record(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.jsonl"):
        make_provider(f"script:{tmp_path}/nowhere.jsonl", Config())
    with pytest.raises(UserError, match="--record"):
        path = script(tmp_path, {"for": "chat", "body": completion("x")})
        make_provider(f"script:{path}", Config(), record=tmp_path)


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"[]", b'{"messages":[]}', b'{"messages":[1]}', b'{"messages":[{"x":1}]}'],
)
def test_a_bad_request_of_the_board_is_refused_in_words(tmp_path: Path, body: bytes) -> None:
    async def go() -> Outcome:
        path = script(tmp_path, {"for": "chat", "body": completion("x")})
        reply = await Relay(make_provider(f"script:{path}", Config())).respond("chat", body)
        return outcome(reply.status, b"".join([p async for p in reply.pieces]))

    got = asyncio.run(go())
    assert got.status == 400 and got.error is not None and got.error["kind"] == "request"


# What the device makes of it


class Handler:
    """Collects what the device's reader tells."""

    def __init__(self) -> None:
        self.text = ""
        self.tools: list[tuple[int, str, str, str]] = []
        self.end: tuple[str, Any] | None = None

    def on_text(self, text: str) -> None:
        self.text += text

    def on_reasoning(self, text: str) -> None:
        pass

    def on_tool(self, index: int, call_id: str, name: str, arguments: str) -> None:
        self.tools.append((index, call_id, name, arguments))

    def on_end(self, reason: str, usage: Any) -> None:
        self.end = (reason, usage)


def device_reads(path: Path) -> Handler:
    """One reply through the relay into the device's ReplyReader, piece by piece."""

    async def go() -> Handler:
        relay = Relay(make_provider(f"script:{path}", Config()))
        reply = await relay.respond("chat", b'{"messages":[{"role":"user","content":"x"}]}')
        handler = Handler()
        reader = ReplyReader(handler, reply.status, reply.retry_after)
        async for piece in reply.pieces:
            reader.feed(piece)
        reader.finish()
        return handler

    return asyncio.run(go())


def test_the_device_reads_text_and_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":"世"}'}}
    body = completion("Line one\nand \ud83d\ude00.", tool_calls=[call])
    got = device_reads(script(tmp_path, {"for": "chat", "body": body}))
    assert got.text == "Line one\nand 😀." and got.end is not None and got.end[0] == "stop"
    assert got.tools[0][1:3] == ("c1", "f")
    assert "".join(t[3] for t in got.tools) == '{"a":"世"}'


@pytest.mark.parametrize(
    ("line", "kind", "status"),
    [
        ({"status": 429, "retry_after": 9, "body": {"error": "slow"}}, "rate", 429),
        ({"status": 401, "body": {}}, "auth", 401),
        ({"body": "<html>x"}, "html", 0),
        ({"body": {"choices": None}}, "empty", 0),
        ({"body": {"error": {"message": "no such model"}}}, "request", 0),
    ],
)
def test_the_device_gets_the_same_kind_and_sentence(
    tmp_path: Path, line: Any, kind: str, status: int
) -> None:
    path = script(tmp_path, {"for": "chat", **line})
    with pytest.raises(LLMError) as caught:
        device_reads(path)
    assert (caught.value.kind, caught.value.status) == (kind, status)
    (told,) = play(path)
    assert told.error is not None and told.error["message"][:-2] in caught.value.message


def test_the_device_sees_where_a_stream_was_cut(tmp_path: Path) -> None:
    raw = 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'
    with pytest.raises(LLMError) as caught:
        device_reads(script(tmp_path, {"for": "chat", "body": raw}))
    assert caught.value.kind == "cut"


# Pieces


def paced(texts: list[str]) -> tuple[str, list[bytes]]:
    pacer = Pacer()
    events = [e for t in texts for e in pacer.add(Delta("content", t))] + pacer.flush(last=True)
    return outcome(200, b"".join(events)).text, events


@generate(st.lists(st.text(st.characters(exclude_categories=())), max_size=20))
def test_pacing_never_loses_or_splits_a_letter(texts: list[str]) -> None:
    text, events = paced(texts)
    assert text == join_surrogates("".join(texts))
    # 160 bytes of text, each of which JSON may write as six (\\u0001), plus the frame.
    assert all(len(event) <= 160 * 6 + 60 for event in events)


def test_half_an_emoji_waits_for_its_other_half() -> None:
    pacer = Pacer()
    events = pacer.add(Delta("content", "so \ud83d"))
    events += pacer.flush()  # the time for waiting is over
    assert outcome(200, b"".join(events)).text == "so "
    events += pacer.add(Delta("content", "\ude00!")) + pacer.flush(last=True)
    assert outcome(200, b"".join(events)).text == "so 😀!"


@generate(st.text(), st.integers(4, 40))
def test_split_text(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert "".join(parts) == text and all(0 < len(p.encode()) <= limit for p in parts)


# Sentences


@generate(st.text(max_size=2000), st.sampled_from([400, 401, 404, 429, 500, 503]))
def test_sentences_are_short_plain_and_keyless(text: str, status: int) -> None:
    body = f"{text} {KEY} <b>{text}</b>"
    error = http_error(
        status,
        body,
        url="https://user:secret@host.example/v1/chat?key=hidden",
        model="m",
        key_setting="X",
        secrets=(KEY,),
    )
    assert len(error.message) <= MESSAGE_LIMIT and "\n" not in error.message
    assert KEY not in error.message and "secret" not in error.message.replace(text, "")
    assert "hidden" not in error.message.replace(text, "")
    error.body().decode("utf-8")


def test_a_key_is_hidden_before_the_text_is_cut() -> None:
    key = "hunter2-of-a-private-server"
    for before in range(MESSAGE_LIMIT):
        error = http_error(
            400,
            "x" * before + key + "y" * 300,
            url="http://h",
            model="m",
            key_setting="X",
            secrets=(key,),
        )
        assert key[:7] not in error.message


def test_foreign_keys_are_hidden() -> None:
    for key in ("sk-proj-abcDEF123456", "gsk_0123456789abc", "AIzaSyA0123456789"):
        assert key not in sentence(f"Incorrect API key provided: {key}.")
    assert sentence("the key-value store has skills") == "the key-value store has skills."
