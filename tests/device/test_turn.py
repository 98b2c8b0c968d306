"""One reply into the session: FINAL or TOOL, byte for byte (SPEC-session §4; B04 B11 B12 B17)."""

import json
import os

from upyclaw.llm.errors import LLMError
from upyclaw.llm.reader import ReplyReader
from upyclaw.llm.turn import TurnHandler
from upyclaw.storage import FINAL, TOOL, FlashFull, SessionStore, user_record

CASES = (os.getenv("UPYCLAW_TEST_DATA") or "tests/data") + "/cases/"


def open_turn(root):
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("go"))
    return session


def record(session, i):
    return b"".join(bytes(chunk) for chunk in session.chunks(i, bytearray(64)))


def play(session, reply, keep=True):
    """Feed `reply` (dict: a body; str: a stream); returns (handler, text shown, type)."""
    shown = []
    handler = TurnHandler(session, shown.append, 1, keep)
    reader = ReplyReader(handler)
    data = (reply if isinstance(reply, str) else json.dumps(reply)).encode()
    for i in range(0, len(data), 50):
        reader.feed(memoryview(data)[i : i + 50])
    reader.finish()
    rtype = handler.finish()
    session.sync()
    return handler, "".join(shown), rtype


def body(reason="stop", **message):
    message["role"] = "assistant"
    return {"choices": [{"message": message, "finish_reason": reason}]}


def test_text(root):
    session = open_turn(root)
    text = 'Say "hi"\n\u4f60\u597d \U0001f600 \\ \x01' + "long " * 200
    handler, shown, rtype = play(session, body(content="\n\n" + text))
    assert (rtype, shown) == (FINAL, text)
    assert session.entry(1)[2:] == (FINAL, 1)
    data = record(session, 1)
    head = '{"role":"assistant","content":"Say \\"hi\\"\\n\u4f60\u597d \U0001f600 \\\\ \\u0001long'
    assert data.startswith(head.encode())
    assert json.loads(data) == {"role": "assistant", "content": text}
    session.finish()


def test_calls_without_text(root):
    session = open_turn(root)
    call = {"id": "c1", "type": "function", "function": {"name": "sqrt", "arguments": '{"x":169}'}}
    handler, shown, rtype = play(session, body(content=None, tool_calls=[call]))
    assert (rtype, shown) == (TOOL, "")
    assert record(session, 1) == (
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",'
        b'"function":{"name":"sqrt","arguments":"{\\"x\\":169}"}}]}'
    )
    assert handler.calls[0].arguments == {"x": 169} and not handler.calls[0].problem
    assert session.entry(1)[2] == TOOL


def test_text_then_calls_is_one_record(root):
    session = open_turn(root)
    stream = (
        'data: {"choices":[{"delta":{"reasoning_content":"The \\"user\\" "}}]}\n\n'
        'data: {"choices":[{"delta":{"reasoning_content":"asks."}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"Let me look."}}]}\n\n'
        'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a",'
        '"function":{"name":"f","arguments":"{"}}]}}]}\n\n'
        'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}},'
        '{"index":1,"function":{"name":"g h"}}]},"finish_reason":"tool_calls"}]}\n\n'
    )
    handler, shown, rtype = play(session, stream)
    assert (rtype, shown) == (TOOL, "Let me look.")
    message = json.loads(record(session, 1))
    assert message["content"] == "Let me look."
    assert message["reasoning_content"] == 'The "user" asks.'
    assert [c["function"]["name"] for c in message["tool_calls"]] == ["f", "g_h"]
    assert [c["function"]["arguments"] for c in message["tool_calls"]] == ["{}", "{}"]
    ids = [c["id"] for c in message["tool_calls"]]
    assert ids[0] == "a" and ids[1] and ids[1] != "a"
    assert session.entry(1)[2] == TOOL


def test_reasoning(root):
    with open(CASES + "B04.json", "rb") as f:
        cases = json.loads(f.read())["cases"]
    session = open_turn(root)
    for case in cases[:2]:
        reply = case["input"]["llm_replies"][0]
        handler, shown, _ = play(session, reply)
        given = reply["choices"][0]["message"]
        message = json.loads(record(session, session.count - 1))
        assert message["reasoning_content"] == given["reasoning_content"]
        assert shown == ""
        play(session, reply, False)
        assert "reasoning_content" not in json.loads(record(session, session.count - 1))
    play(session, body(content="done", reasoning_content="secret thought"))
    assert b"secret" not in record(session, session.count - 1)


def test_cut_replies(root):
    session = open_turn(root)
    with open(CASES + "B17.json", "rb") as f:
        cases = json.loads(f.read())["cases"]
    for case in cases[:3]:
        handler, _, rtype = play(session, case["input"]["reply"])
        assert rtype == TOOL and handler.calls[0].problem, case["name"]
        stored = json.loads(record(session, session.count - 1))["tool_calls"][0]
        json.loads(stored["function"]["arguments"])
    handler, shown, rtype = play(session, cases[3]["input"]["reply"])
    assert rtype == FINAL and handler.cut and shown == "The first step is"


def test_failed_reply(root):
    session = open_turn(root)
    shown = []
    handler = TurnHandler(session, shown.append)
    reader = ReplyReader(handler, 500)
    reader.feed(b"<html>" + b"x" * 5000)
    try:
        reader.finish()
    except LLMError as e:
        handler.fail("[turn failed: {}]".format(e.message))
    session.finish()
    message = json.loads(record(session, 1))
    assert message["content"].startswith("[turn failed") and "500" in message["content"]
    assert len(message["content"]) <= 220 and "xxx" not in message["content"]
    assert session.entry(1)[2] == FINAL


def test_reply_that_breaks_off_keeps_what_came(root):
    session = open_turn(root)
    shown = []
    handler = TurnHandler(session, shown.append)
    reader = ReplyReader(handler)
    reader.feed(b'data: {"choices":[{"delta":{"content":"half an"}}]}\n\n')
    try:
        reader.finish()
    except LLMError as e:
        assert e.kind == "cut"
        handler.fail("[cut off]")
    session.finish()
    assert json.loads(record(session, 1))["content"] == "half an\n\n[cut off]"
    assert shown == ["half an"]


def test_limits(root):
    session = open_turn(root)
    calls = [{"id": str(i), "function": {"name": "f", "arguments": "{}"}} for i in range(12)]
    handler, _, _ = play(session, body(tool_calls=calls))
    assert len(json.loads(record(session, 1))["tool_calls"]) == 8
    long = {"id": "a", "function": {"name": "f", "arguments": '{"a":"' + "x" * 5000 + '"}'}}
    handler, _, _ = play(session, body(reasoning_content="y" * 9000, tool_calls=[long]))
    assert handler.calls[0].problem
    assert len(record(session, 2)) < 5000


class Full:
    """A session on a flash that fills up at the second write."""

    count = 1

    def __init__(self):
        self.writes = 0

    def begin(self, rtype, fmt):
        pass

    def write(self, data):
        self.writes += 1
        if self.writes > 1:
            raise FlashFull("The flash is full.")

    def end(self, rtype):
        assert False


def test_full_flash_does_not_stop_the_answer():
    session = Full()
    shown = []
    handler = TurnHandler(session, shown.append)
    for word in ("one ", "two ", "three"):
        handler.on_text(word)
    handler.on_end("stop", None)
    try:
        handler.finish()
    except FlashFull:
        pass
    else:
        assert False
    assert "".join(shown) == "one two three" and session.writes == 2
