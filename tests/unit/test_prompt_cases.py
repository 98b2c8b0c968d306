"""The request for the files of the case collection (B01 B04 B05 B06 B12 B14 B40 B41 B59)."""

from __future__ import annotations

import base64
import importlib.util
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from upyclaw.prompt import Request
from upyclaw.storage.codec import user_record

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "device")]

from fake_session import FakeSession  # noqa: E402
from invariants import broken_rules, text_of  # noqa: E402

CASES = HERE.parent / "data" / "cases"
CHECKER = HERE.parents[2] / "shared" / "cases" / "check_messages.py"


def checker_says(request: dict[str, Any]) -> list[str]:
    if not CHECKER.exists():
        return []
    spec = importlib.util.spec_from_file_location("check_messages", CHECKER)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.failures(request)
    return found


def build(session: Any, budget: int = 10**6, size: int = 100, **options: Any) -> dict[str, Any]:
    options.setdefault("tool_rounds", True)
    request = Request(session, [("", "Be brief.")], budget, options=options)
    buf = bytearray(size)
    body = b"".join(bytes(piece) for piece in request.pieces(buf))
    assert body == b"".join(bytes(piece) for piece in request.pieces(buf))
    result: dict[str, Any] = json.loads(body.decode("utf-8"))
    assert broken_rules(result) == []
    assert checker_says(result) == []
    return result


def session_of(case: dict[str, Any]) -> FakeSession:
    given = case["input"]
    session = FakeSession()
    if "records" in given:
        for r in given["records"]:
            data = base64.b64decode(r["json_b64"]) if "json_b64" in r else r["json"].encode()
            session.add(r["record_type"], data, r["backend_format"])
    else:
        data = base64.b64decode(given["data_b64"])
        idx = base64.b64decode(given["idx_b64"])
        for at in range(8, len(idx), 10):
            offset, length, rtype, fmt = struct.unpack_from("<IIBB", idx, at)
            session.add(rtype, data[offset : offset + length - 1], fmt)
    if "then_user" in given:
        session.add(1, user_record(given["then_user"]))
    return session


def load(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text())["cases"]
    return cases


def users(request: dict[str, Any]) -> str:
    return "\n\n".join(text_of(m) for m in request["messages"] if m["role"] == "user")


@pytest.mark.parametrize("case", load("B01"), ids=lambda c: c["name"])
def test_pairs(case: dict[str, Any]) -> None:
    session = session_of(case)
    before = list(session.records)
    request = build(session)
    assert users(request) == "\n\n".join(case["expected"]["user_texts_in_order"])
    text = json.dumps(request)
    for word in case["expected"].get("must_not_contain", []):
        assert word not in text
    assert session.records == before


def test_two_calls_one_answer_keeps_the_answer() -> None:
    case = next(c for c in load("B01") if c["name"] == "two_calls_one_answer")
    tools = [m for m in build(session_of(case))["messages"] if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in tools] == [
        ("c1", "417"),
        ("c2", "(interrupted)"),
    ]


def test_budget_cut() -> None:
    case = load("B41")[0]
    session = session_of(case)
    keep = case["input"]["history_budget_keeps_last_records"] + 1  # and the question itself
    budget = sum(len(r[2]) + 1 for r in session.records[-keep:])
    request = build(session, budget)
    text = json.dumps(request)
    for word in case["expected"]["must_contain"]:
        assert f'"{word}' in text or f"n{word}" in text
    for word in case["expected"]["must_not_contain"]:
        assert word not in text
    assert request["messages"][1]["content"] == case["expected"]["first_non_system"]
    assert case["expected"]["joined"] in [m["content"] for m in request["messages"]]


def tool_session(
    message: dict[str, Any], results: list[Any], finished: bool = False
) -> FakeSession:
    session = FakeSession()
    session.add(1, user_record("go"))
    session.add(3, json.dumps(message))
    session.add(4, json.dumps(results))
    if finished:
        session.add(2, '{"role":"assistant","content":"done"}')
        session.add(1, user_record("thanks"))
    return session


def test_reasoning_goes_back_in_the_open_turn_only() -> None:
    for case in load("B04")[:2]:
        message = case["input"]["llm_replies"][0]["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": "call_9", "content": "21.5", "is_error": False}
        ]
        request = build(tool_session(message, results))
        sent = request["messages"][2]
        assert sent["reasoning_content"] == message["reasoning_content"]
        assert sent["tool_calls"] == message["tool_calls"]
        assert "reasoning_content" not in json.dumps(
            build(tool_session(message, results), reasoning=False)
        )
        assert "reasoning_content" not in json.dumps(build(tool_session(message, results, True)))


def test_files_with_bad_bytes() -> None:
    text = json.dumps(build(session_of(load("B05")[2])), ensure_ascii=False)
    assert '"a"' in text and '"b"' in text and "x\ufffd\ufffdy" in text
    text = json.dumps(build(session_of(load("B06")[2])), ensure_ascii=False)
    assert "hi" in text and "\U0001f600 ok" not in text.replace("\U0001f600 ok", "")
    session = session_of(load("B06")[2])
    session.add(1, user_record("more"))
    assert build(session)["messages"][2]["content"] == "\U0001f600 ok"


def test_content_beside_calls() -> None:
    for case in load("B12")[:3]:
        message = case["input"]["reply_message"]
        results = [{"role": "tool", "tool_call_id": "c1", "content": "13"}]
        session = tool_session(message, results)
        assert build(session)["messages"][2]["content"] is None
        assert build(session, empty_content="empty")["messages"][2]["content"] == ""
        assert "content" not in build(session, empty_content="omit")["messages"][2]


def test_argument_shapes_go_out_as_strings() -> None:
    for case in load("B14"):
        call = case["input"]["tool_calls"][0]
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        results = [{"role": "tool", "tool_call_id": call.get("id"), "content": "ok"}]
        request = build(tool_session(message, results))
        arguments = request["messages"][2]["tool_calls"][0]["function"]["arguments"]
        given = call["function"]["arguments"]
        if case["name"] in ("cut", "empty", "null"):
            assert arguments == "{}"
        elif isinstance(given, str):
            assert arguments == given
        else:
            assert json.loads(arguments) == given
        assert request["messages"][3]["content"] == "ok"


def test_blank_blocks_and_results() -> None:
    reply = load("B40")[0]["input"]["reply"]
    message = {"role": "assistant", "content": reply["content"]}
    results = [{"role": "tool", "tool_call_id": "toolu_1", "content": ""}]
    request = build(tool_session(message, results))
    assert request["messages"][2] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "toolu_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
        ],
    }
    assert request["messages"][3]["content"] == "(no output)"


def test_same_id_in_every_round() -> None:
    session = FakeSession()
    session.add(1, user_record("how warm?"))
    for _ in range(10):
        session.add(
            3,
            '{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"read_sensor","arguments":"{}"}}]}',
        )
        session.add(4, '[{"role":"tool","tool_call_id":"c","content":"21","is_error":false}]')
    request = build(session)
    tools = [m for m in request["messages"] if m["role"] == "tool"]
    assert [m["content"] for m in tools] == ["21"] * 10
    assert len({m["tool_call_id"] for m in tools}) == 10


def test_anthropic_records_keep_text_and_tools() -> None:
    session = FakeSession()
    session.add(1, user_record("warm?"), 2)
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "Let me "},
        {"type": "text", "text": 'look\n"there".'},
        {
            "type": "tool_use",
            "id": "t1",
            "name": "read sensor!",
            "input": {"id": 1, "s": 'a"b\\\n\u4f60'},
        },
    ]
    session.add(3, json.dumps({"role": "assistant", "content": blocks}, indent=1), 2)
    session.add(4, '[{"role":"tool","tool_call_id":"t1","content":"21","is_error":false}]', 2)
    session.add(
        2,
        json.dumps({"role": "assistant", "content": [{"type": "text", "text": "21 degrees"}]}),
        2,
    )
    session.add(1, user_record("ok"))
    messages = build(session)["messages"]
    assert messages[2]["content"] == 'Let me look\n"there".'
    function = messages[2]["tool_calls"][0]["function"]
    assert function["name"] == "read_sensor_"
    assert json.loads(function["arguments"]) == blocks[3]["input"]
    assert messages[3]["content"] == "21"
    assert messages[4]["content"] == "21 degrees"


def test_what_the_file_holds_goes_out_byte_for_byte() -> None:
    call = (
        '[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":'
        '"{\\"p\\": 4}"},"extra_content":{"google":{"thought_signature":"abc=="}}}]'
    )
    session = FakeSession()
    session.add(1, user_record('say "\u4f60\u597d"\n\U0001f600'))
    session.add(3, '{"role":"assistant","content":"ok","tool_calls":' + call + "}")
    session.add(
        4, '[{"role":"tool","tool_call_id":"call_1","content":"a\\u00e9\\/b","is_error":false}]'
    )
    request = Request(session, [], 9999, options={"tool_rounds": True})
    body = b"".join(bytes(p) for p in request.pieces(bytearray(64))).decode()
    assert call in body
    assert "a\\u00e9\\/b" in body
    assert session.records[0][2].decode() in body


def test_newest_turn_over_the_budget() -> None:
    session = FakeSession()
    session.add(1, user_record("old question"))
    session.add(2, '{"role":"assistant","content":"old answer"}')
    session.add(1, user_record("read all"))
    for i in range(4):
        session.add(
            3,
            f'{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{i}","type":"function",'
            '"function":{"name":"f","arguments":"{}"}}]}',
        )
        word = f"r{i}" * 500
        session.add(4, f'[{{"role":"tool","tool_call_id":"c{i}","content":"{word}"}}]')
    request = build(session, 3300)
    text = json.dumps(request)
    assert "old question" not in text and "read all" in text
    contents = [m["content"] for m in request["messages"] if m["role"] == "tool"]
    assert [c.startswith("(left out") for c in contents] == [True, True, False, False]
    request = build(session, 300)
    assert len(json.dumps(request)) < 900
    assert "read all" in json.dumps(request)


def test_long_question_is_cut_last() -> None:
    session = FakeSession()
    session.add(1, '{"role":"user","content":"' + "\u4f60\\n\\ud83d\\ude00" * 900 + '"}')
    text = build(session, 1000)["messages"][1]["content"]
    assert text.startswith("\u4f60\n\U0001f600") and "bytes left out]" in text
    assert len(text.encode()) < 1200


@pytest.mark.parametrize(
    "line",
    [
        b'{"role":"user","content":"bad',
        b'{"role":"user","content":"bad\x00x"}',
        b'{"role":"user","content":"bad\nx"}',
        b'{"role":"user","content":"bad\\x"}',
        b'{"role":"user","content":"bad\\u12"}',
        b'{"role":"user","content":"bad"}}',
        b'{"role":"user","content":"bad",}',
        b'{"role":"user" "content":"bad"}',
        b'{"role":"user","content":"bad","n":01}',
        b'{"role":"user","content":"bad","n":nul}',
        b'[{"role":"user","content":"bad"}',
        b'{"role":"user","content":"bad","n":' + b"[" * 99 + b"]" * 99 + b"}",
    ],
)
def test_what_is_not_json_is_skipped(line: bytes) -> None:
    session = FakeSession([(1, 1, user_record("good")), (1, 1, line)])
    request = Request(session, [], 9999)
    body = b"".join(bytes(p) for p in request.pieces(bytearray(64)))
    assert b"bad" not in body and b"good" in body
    assert request.unreadable == 1


def test_records_that_say_something_else_than_the_idx() -> None:
    session = FakeSession()
    session.add(4, '{"role":"user","content":"one"}')
    session.add(1, '{"role":"assistant","content":"two"}')
    session.add(1, "not json")
    session.add(2, '{"content":"three"}')
    session.add(
        1, '["x",{"role":"user","content":["four",{"type":"image"},{"type":"text","text":"!"}]}]'
    )
    session.add(3, '{"role":"system","content":"evil"}')
    request = Request(session, [], 9999)
    result = json.loads(b"".join(bytes(p) for p in request.pieces(bytearray(64))))
    assert broken_rules(result) == []
    assert [m["content"] for m in result["messages"]][-1] == "four!"
    assert request.unreadable == 1
    assert "evil" not in json.dumps(result)


def test_without_tools_only_the_texts_go_out() -> None:
    session = FakeSession()
    session.add(1, user_record("go"))
    session.add(
        3,
        '{"role":"assistant","content":"let me see",'
        '"tool_calls":[{"id":"c","function":{"name":"f"}}]}',
    )
    session.add(4, '[{"role":"tool","tool_call_id":"c","content":"21"}]')
    session.add(2, '{"role":"assistant","content":"It is 21."}')
    session.add(1, user_record("thanks"))
    messages = build(session, tool_rounds=False)["messages"]
    assert [m["content"] for m in messages[1:]] == ["go", "let me see\n\nIt is 21.", "thanks"]
    assert len(build(session)["messages"]) == 6


def golden_sessions() -> list[Path]:
    return sorted((CHECKER.parents[1] / "golden" / "sessions").rglob("*.log"))


@pytest.mark.parametrize("path", golden_sessions(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_golden_sessions(path: Path) -> None:
    """What the reference wrote, damaged or not: valid, and no user text that is JSON is lost."""
    session = FakeSession()
    texts = []
    for line in path.read_bytes().splitlines():
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            session.add(1, line)
            continue
        role = value.get("role") if isinstance(value, dict) else "tool"
        rtype = {"user": 1, "tool": 4}.get(role, 3 if value and "tool_calls" in value else 2)
        session.add(rtype, line)
        if role == "user" and isinstance(value["content"], str) and value["content"].strip():
            texts.append(value["content"])
    session.add(1, user_record("the question"))
    result = build(session, budget=10**7)
    assert users(result) == "\n\n".join([*texts, "the question"])
    result = build(session, budget=20000)
    assert sum(len(json.dumps(m, ensure_ascii=False)) for m in result["messages"]) < 40000


def test_no_history_at_all() -> None:
    for session in (
        None,
        FakeSession(),
        FakeSession([(2, 1, b'{"role":"assistant","content":"x"}')]),
    ):
        assert build(session)["messages"][1] == {"role": "user", "content": "(no message)"}
        assert build(session, user="hi")["messages"][1] == {"role": "user", "content": "hi"}
