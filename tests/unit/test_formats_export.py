"""Exports: OpenAI messages that any provider takes, JSON lines and Markdown that tell the file."""

from __future__ import annotations

import importlib.util
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.formats_help import folder_pairs, pair_of, session_folder, shared, write_pair
from upyclaw_host.formats.export import jsonl, markdown, openai
from upyclaw_host.formats.messages import dump

_CALL = (
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",'
    b'"function":{"name":"lamp","arguments":"{}"}}]}'
)
_RESULT = b'[{"role":"tool","tool_call_id":"c1","content":"ok","is_error":false}]'
_USER = b'{"role":"user","content":"q"}'
_FINAL = b'{"role":"assistant","content":"a"}'
_BLOCKS = (
    b'{"role":"assistant","content":[{"type":"thinking","thinking":"h"},'
    b'{"type":"tool_use","id":"c1","name":"w","input":{"city":"\xe6\x9d\xad"}}]}'
)
_PIECES = [
    (1, _USER),
    (1, b'{"role":"user","content":"  "}'),
    (2, _FINAL),
    (2, b'{"role":"assistant","content":null}'),
    (3, _CALL),
    (3, _BLOCKS),
    (4, _RESULT),
    (4, b"[]"),
    (2, b"no json"),
]


def _check(messages: list[dict]) -> None:
    """The invariants of the request checker, in the tests' own words."""
    assert not messages or messages[0]["role"] == "user"
    seen: set[str] = set()
    waiting: list[str] = []
    before = None
    for message in messages:
        role = message["role"]
        assert set(message) <= {"role", "content", "tool_calls", "tool_call_id"}
        if role == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting and role != before
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            assert not seen & set(waiting) and all(waiting)
            seen |= set(waiting)
            assert waiting or message["content"].strip()
        before = role
    assert not waiting


@given(st.lists(st.sampled_from(_PIECES), max_size=10))
def test_openai_messages_are_valid_for_any_file(pieces):
    data, idx = write_pair([(rtype, 1, raw) for rtype, raw in pieces])
    _check(openai(pair_of(data, idx).records))


@given(st.lists(st.sampled_from(_PIECES), max_size=10))
def test_the_shared_checker_agrees(pieces):
    spec = importlib.util.spec_from_file_location("checker", shared("cases", "check_messages.py"))
    assert spec is not None and spec.loader is not None
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    data, idx = write_pair([(rtype, 1, raw) for rtype, raw in pieces])
    messages = openai(pair_of(data, idx).records)
    assert not messages or checker.failures(messages) == []


def test_pairs_are_kept_and_mended_in_openai_messages():
    records = [(1, 1, _USER), (3, 1, _CALL), (4, 1, _RESULT), (3, 1, _CALL), (2, 1, _FINAL)]
    messages = openai(pair_of(*write_pair(records)).records)
    assert [m["role"] for m in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    assert messages[3]["tool_calls"][0]["id"] == "c1_2" == messages[4]["tool_call_id"]
    assert messages[4]["content"] == "(no result was kept)"


def test_anthropic_blocks_become_openai_calls():
    (pair,) = folder_pairs(session_folder("f_anthropic/after")).values()
    messages = openai(pair.records)
    call = messages[1]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("weather", {"city": "Berlin"})
    assert messages[3]["content"] == "It is 12 °C and raining."


@pytest.mark.parametrize("name", ["a_simple_3_turns", "b_openai_tools", "f_anthropic"])
def test_json_lines_hold_every_record(name):
    (pair,) = folder_pairs(session_folder(name + "/after")).values()
    lines = [json.loads(line) for line in jsonl(pair)]
    assert [line["value"] for line in lines] == [record.value for record in pair.records]
    assert b"".join(dump(line["value"]).encode() + b"\n" for line in lines) == b"".join(
        record.raw + b"\n" for record in pair.records
    )


def test_markdown_tells_turns_calls_and_results():
    records = [
        (1, 1, _USER),
        (3, 1, _CALL),
        (4, 1, _RESULT),
        (2, 1, b'{"role":"assistant","content":"`````"}'),
    ]
    text = markdown(pair_of(*write_pair(records)), "demo")
    assert text.startswith("# demo\n\n## Turn 1\n\n**User**\n\nq\n")
    assert "*Assistant calls lamp*" in text and "*Result of lamp*\n\n```\nok\n```" in text


def test_code_in_a_result_does_not_end_its_fence():
    fenced = b'[{"role":"tool","tool_call_id":"c1","content":"```\\nx\\n```"}]'
    text = markdown(pair_of(*write_pair([(1, 1, _USER), (3, 1, _CALL), (4, 1, fenced)])), "d")
    assert "````\n```\nx\n```\n````" in text
