"""Replies of models in every shape and every split (B06, B12, B14, B17, B43)."""

import binascii
import json
import os

from upyclaw.llm.errors import LLMError
from upyclaw.llm.failures import http_error
from upyclaw.llm.reader import BODY_LIMIT, LINE_LIMIT, ReplyReader

CASES = (os.getenv("UPYCLAW_TEST_DATA") or "tests/data") + "/cases/"


class Log:
    def __init__(self):
        self.text = ""
        self.thoughts = None
        self.calls = []
        self.end = None

    def on_text(self, text):
        assert self.end is None
        self.text += text

    def on_reasoning(self, text):
        self.thoughts = (self.thoughts or "") + text

    def on_tool(self, index, ident, name, arguments):
        while len(self.calls) <= index:
            self.calls.append(["", "", ""])
        call = self.calls[index]
        call[0] = call[0] or ident
        call[1] = call[1] or name
        call[2] += arguments

    def on_end(self, reason, usage):
        assert self.end is None
        self.end = (reason, usage)


def read(data, step=0, status=200):
    """(log, error) of a reply fed in pieces of `step` bytes."""
    if isinstance(data, str):
        data = data.encode()
    log = Log()
    reader = ReplyReader(log, status)
    try:
        for i in range(0, len(data), step or len(data) or 1):
            reader.feed(memoryview(data)[i : i + (step or len(data))])
        reader.finish()
    except LLMError as e:
        return log, e
    return log, None


def same_in_every_split(data, status=200):
    first, error = read(data, 0, status)
    for step in (1, 2, 3, 7, 64):
        log, err = read(data, step, status)
        assert (log.text, log.thoughts, log.calls, log.end) == (
            first.text,
            first.thoughts,
            first.calls,
            first.end,
        )
        assert (err is None) == (error is None)
        if err:
            assert (err.kind, err.message, err.status) == (error.kind, error.message, error.status)
    return first, error


def load(name):
    with open(CASES + name + ".json", "rb") as f:
        return json.loads(f.read())["cases"]


def chunk(delta, reason=None):
    return "data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]}) + "\n\n"


def test_stream():
    data = (
        "\ufeff: hello\r\n\r\nevent: x\r\nid: 3\r\n"
        'data:{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\r\n\r\n'
        'data: {"choices":[{"index":0,"delta":{"content":"Gr\u00fc\u00df "}}]}\r\n\r\n'
        'data: {"choices":[{"index":1,"delta":{"content":"other"}}]}\r\n\r\n'
        'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d\\ude00 \u4f60\u597d"}}]}\r\n\r\n'
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\r\n\r\n'
        'data: {"choices":[],"usage":{"total_tokens":9}}\r\n\r\ndata: [DONE]\r\n\r\nrubbish {'
    )
    log, error = same_in_every_split(data)
    assert error is None
    assert log.text == "Gr\u00fc\u00df \U0001f600 \u4f60\u597d"
    assert log.end == ("stop", {"total_tokens": 9})
    assert log.thoughts is None


def test_last_line_without_end():
    log, error = same_in_every_split(chunk({"content": "hi"}) + chunk({}, "stop").strip())
    assert error is None and log.text == "hi"


def test_tool_fragments():
    def call(**call):
        return {"tool_calls": [call]}

    data = (
        chunk(call(index=0, id="a", function={"name": "f", "arguments": ""}))
        + chunk(call(index=0, function={"arguments": '{"x":'}))
        + chunk(call(index=0, function={"arguments": "1}"}))
        + chunk(call(index=1, id="b", function={"name": "g", "arguments": "{}"}))
        + chunk({}, "tool_calls")
        + "data: [DONE]\n\n"
    )
    log, error = same_in_every_split(data)
    assert error is None
    assert log.calls == [["a", "f", '{"x":1}'], ["b", "g", "{}"]]
    assert log.end[0] == "tool_calls"


def test_tool_fragments_without_index_or_id():
    data = (
        chunk({"tool_calls": [{"function": {"name": "f", "arguments": '{"x":'}}]})
        + chunk({"tool_calls": [{"function": {"arguments": "1}"}}]})
        + chunk({"tool_calls": [{"id": "q", "function": {"name": "g", "arguments": {"y": 2}}}]})
        + "data: [DONE]\n\n"
    )
    log, error = read(data)
    assert error is None
    assert [c[:2] for c in log.calls] == [["", "f"], ["q", "g"]]
    assert json.loads(log.calls[0][2]) == {"x": 1}
    assert json.loads(log.calls[1][2]) == {"y": 2}
    # Every call with index 0, each whole: the new id tells them apart.
    data = (
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]})
        + chunk({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "f"}}]})
        + chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, "tool_calls")
    )
    log, error = read(data)
    assert log.calls == [["a", "f", ""], ["b", "f", "{}"]]


def test_argument_shapes():
    for case in load("B14"):
        body = json.dumps({"choices": [{"message": {"tool_calls": case["input"]["tool_calls"]}}]})
        log, error = read(body)
        assert error is None, case["name"]
        assert len(log.calls) == 1
        assert log.calls[0][1] == "set_pin"
        given = case["input"]["tool_calls"][0]["function"]["arguments"]
        if isinstance(given, str):
            assert log.calls[0][2] == given
        elif given is None:
            assert log.calls[0][2] == ""
        else:
            assert json.loads(log.calls[0][2]) == given


def test_content_shapes():
    for case in load("B12"):
        if "reply_message" not in case["input"]:
            continue
        body = json.dumps({"choices": [{"message": case["input"]["reply_message"]}]})
        log, error = same_in_every_split(body)
        assert error is None, case["name"]
        assert log.text == case["expected"]["shown_text"]
        run = case["expected"].get("tool_run")
        if run:
            assert log.calls[0][:2] == ["c1", run[0]]
            assert json.loads(log.calls[0][2]) == run[1]
            assert log.end[0] == "stop"


def test_reasoning_comes_as_it_is_even_empty():
    for case in load("B04")[:2]:
        reply = case["input"]["llm_replies"][0]
        log, error = read(json.dumps(reply))
        assert error is None
        assert log.thoughts == reply["choices"][0]["message"]["reasoning_content"]
        assert log.text == ""
    log, error = read(chunk({"reasoning": "hm", "content": "a"}) + chunk({}, "stop"))
    assert (log.thoughts, log.text) == ("hm", "a")
    log, error = read(chunk({"reasoning_content": None, "content": "a"}) + chunk({}, "stop"))
    assert log.thoughts is None


def test_cut_by_the_token_limit():
    for case in load("B17"):
        log, error = read(json.dumps(case["input"]["reply"]))
        assert error is None, case["name"]
        if case["name"] == "router_lies":
            assert log.end[0] == "tool_calls"
        else:
            assert log.end[0] == "length"
        if case["name"] == "anthropic":
            assert log.text == "The first step is"


def test_escaped_emoji():
    pair, half = load("B06")[:2]
    log, error = same_in_every_split(binascii.a2b_base64(pair["input"]["http_body_b64"]))
    assert error is None and log.text == pair["expected"]["shown"]
    assert log.text.encode()[:4] == b"\xf0\x9f\x98\x80"
    log, error = same_in_every_split(binascii.a2b_base64(half["input"]["http_body_b64"]))
    assert log.text == "half \ufffd end"


def test_bodies_with_something_else_inside():
    for case in load("B43"):
        log, error = same_in_every_split(case["input"]["body"])
        name = case["name"]
        if name == "ollama_native":
            assert error is None and log.text == "hi"
            continue
        assert isinstance(error, LLMError), name
        assert log.end is None and log.text == "", name
        assert len(error.message) <= 200 and "<" not in error.message
        if name == "html":
            assert error.kind == "html" and "Hotel login" in error.message
        elif name == "rate":
            assert (error.kind, error.status) == ("rate", 429)
            assert "rate limited" in error.message
        elif name in ("choices_null", "choices_empty", "empty", "array", "content_missing"):
            assert error.kind == "empty", name
        else:
            assert case["expected"]["user_text_mentions"] in error.message, error.message


def test_error_in_the_stream():
    data = (
        chunk({"content": "The first"}) + 'data: {"error":{"message":"overloaded","code":503}}\n\n'
    )
    log, error = same_in_every_split(data)
    assert log.text == "The first"
    assert (error.kind, error.status) == ("server", 503)
    data = chunk({"content": "a"}) + 'event: error\ndata: {"type":"error","error":"gone bad"}\n\n'
    log, error = read(data)
    assert "gone bad" in error.message


def test_cut_stream_delivers_what_came():
    log, error = same_in_every_split(chunk({"content": "half an"}) + chunk({"content": " answer"}))
    assert log.text == "half an answer"
    assert error.kind == "cut" and log.end is None


def test_empty_answers():
    log, error = read(chunk({"content": " \n"}) + chunk({}, "stop") + "data: [DONE]\n")
    assert error.kind == "empty"
    log, error = read(chunk({"reasoning_content": "hm"}) + chunk({}, "length"))
    assert error.kind == "empty" and "max_tokens" in error.message
    log, error = read("data: [DONE]\n\n")
    assert error.kind == "empty"


def test_ollama_stream_of_lines():
    data = (
        '{"model":"m","message":{"role":"assistant","content":"Hel"},"done":false}\n'
        '{"model":"m","message":{"role":"assistant","content":"lo"},"done":false}\n'
        '{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'
    )
    log, error = same_in_every_split(data)
    assert error is None and log.text == "Hello" and log.end[0] == "stop"


def test_pretty_printed_body():
    body = (
        '{\n  "choices": [\n    {"message": {"content": "a\\nb"},\n "finish_reason": "stop"}\n]}\n'
    )
    log, error = same_in_every_split(body)
    assert error is None and log.text == "a\nb"


def test_limits():
    log, error = read("data: " + "x" * (LINE_LIMIT + 1), 64)
    assert error.kind == "server" and str(LINE_LIMIT) in error.message
    log, error = read('{"a":"' + "x" * BODY_LIMIT, 64)
    assert error.kind == "server" and str(BODY_LIMIT) in error.message
    long = "y" * (LINE_LIMIT - 100)
    log, error = read(chunk({"content": long}) + chunk({}, "stop"), 100)
    assert error is None and log.text == long
    calls = [{"index": i, "id": str(i), "function": {"name": "f"}} for i in range(40)]
    log, error = read(chunk({"tool_calls": calls}, "tool_calls"))
    assert error.kind == "server"


def test_rubbish():
    log, error = same_in_every_split("Internal Server Error")
    assert error.kind == "server" and "Internal Server Error" in error.message
    log, error = same_in_every_split("data: {broken\n\n")
    assert error.kind == "server" and "not JSON" in error.message
    log, error = same_in_every_split(b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n')
    assert log.text == "a\ufffdb" and error.kind == "cut"
    for data in (
        'data: {"choices":[7,null,{"delta":5},{"delta":{"tool_calls":[3,null]}}]}\n',
        "data: 4\n",
    ):
        log, error = read(data)
        assert error.kind == "empty"


def test_http_errors():
    for status, kind in (
        (401, "auth"),
        (403, "auth"),
        (404, "gone"),
        (400, "request"),
        (429, "rate"),
        (500, "server"),
        (529, "server"),
        (504, "timeout"),
    ):
        log, error = same_in_every_split('{"error":{"message":"because"}}', status)
        assert (error.kind, error.status) == (kind, status)
        assert "because" in error.message and str(status) in error.message
    log, error = read("<html>" + "x" * 3000, 50, 500)
    assert error.kind == "server" and "500" in error.message and "xxx" not in error.message
    error = http_error(400, b'{"error":{"message":"m","code":"context_length_exceeded"}}')
    assert error.kind == "context"
    error = http_error(400, b'{"error":{"message":"maximum context length is 4096 tokens"}}', 3)
    assert error.kind == "context" and error.retry_after == 3
    error = http_error(503, b'{"error":{"message":"The local model is busy.","kind":"rate"}}')
    assert error.kind == "rate" and error.message == "The local model is busy (503)."
    assert http_error(502).message == "The model server failed (502)."
    long = http_error(500, b'{"error":"' + b"word " * 300 + b'"}')
    assert len(long.message) <= 200 and "500" in long.message
