"""The request from a real session on flash: bytes, budget, pairs, RAM (B01, B04, B41, B59)."""

import gc
import json
import sys

from upyclaw.llm.reader import ReplyReader
from upyclaw.llm.turn import TurnHandler
from upyclaw.prompt import Request, estimate_tokens, history_budget
from upyclaw.storage import FINAL, TOOL, SessionStore, user_record
from upyclaw.tools.registry import Registry
from upyclaw.tools.rounds import ToolRounds

SYSTEM = [
    ("", "You are a board."),
    ("Empty", ""),
    ("Notes", lambda: (b"a\xe4", b"\xbd\xa0\n", "\u597d")),
]


class Sensor:
    name = "read_sensor"
    description = "Reads the sensor."
    schema = b'{"type":"object","properties":{}}'

    async def run(self, args, context):
        return "21.5 \u00b0C"


def send(request, size=200):
    buf = bytearray(size)
    body = b"".join(bytes(piece) for piece in request.pieces(buf))
    assert body == b"".join(bytes(piece) for piece in request.pieces(buf))
    return json.loads(body)


def put(session, rtype, data):
    session.begin(rtype, 1)
    session.write(data)
    session.end()


def turn(session, question, answer):
    session.add_user(user_record(question))
    put(session, FINAL, user_record(answer).replace(b"user", b"assistant", 1))
    session.finish()


def pairs(messages):
    """Check the pairing of calls and results; returns the roles."""
    waiting = []
    seen = []
    for m in messages:
        if m["role"] == "tool":
            assert m["tool_call_id"] in waiting
            waiting.remove(m["tool_call_id"])
            continue
        assert waiting == []
        waiting = [c["id"] for c in m.get("tool_calls", [])]
        for ident in waiting:
            assert ident and ident not in seen
            seen.append(ident)
    assert waiting == []
    return [m["role"] for m in messages]


def test_system_sections():
    request = Request(
        None, SYSTEM, 1000, Registry([Sensor()]), "m", {"max_tokens": 9, "temperature": 7}
    )
    body = send(request)
    assert body["model"] == "m" and body["stream"] is True and body["max_tokens"] == 9
    assert json.dumps(body["temperature"]) == "0.7"
    assert body["messages"][0]["content"] == "You are a board.\n\n## Notes\na\u4f60\n\u597d"
    assert body["tools"][0]["function"]["name"] == "read_sensor"
    report = request.report
    assert [name for name, _ in report] == ["instructions", "Notes", "history", "tools"]
    assert all(n > 10 for _, n in report)
    body = send(Request(None, [("A", " "), ("B", lambda: ())], 0, None, None, {"user": "hi"}))
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert "tools" not in body and "model" not in body
    body = send(
        Request(
            None, [], 0, options={"max_tokens": 5, "max_tokens_field": "max_completion_tokens"}
        )
    )
    assert body["max_completion_tokens"] == 5 and "max_tokens" not in body


def test_open_question_is_sent(root):
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("first?"))
    body = send(Request(session, [], 9999))
    assert body["messages"] == [{"role": "user", "content": "first?"}]


def test_history_in_order_and_budget(root):
    session = SessionStore(root).open("chat:test:1")
    for i in range(30):
        turn(session, 'question %d \u4f60 \\ "' % i, "answer %d\n" % i)
    session.add_user(user_record("now"))
    messages = send(Request(session, [], 99999))["messages"]
    assert len(messages) == 61
    assert messages[0]["content"] == 'question 0 \u4f60 \\ "'
    assert messages[59]["content"] == "answer 29\n"
    assert messages[60]["content"] == "now"
    request = Request(session, [], 1000)
    messages = send(request)["messages"]
    assert messages[0]["role"] == "user" and messages[-1]["content"] == "now"
    sent = 0
    for i in range(request.first, session.count):
        sent += session.entry(i)[1] + 1
    assert (
        sent
        <= 1000
        < sent + session.entry(request.first - 1)[1] + session.entry(request.first - 2)[1] + 2
    )
    body = send(Request(session, [], 0))
    assert body["messages"] == [{"role": "user", "content": "now"}]
    session.finish()


def test_power_cut_between_call_and_result(root):
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("Is the heater on?"))
    put(
        session,
        TOOL,
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_a","type":"function",'
        b'"function":{"name":"gpio_read","arguments":"{}"}}]}',
    )
    session.sync()
    session.finish(False)
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("hello?"))
    messages = send(Request(session, [], 9999, Registry([Sensor()])))["messages"]
    assert pairs(messages) == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[2] == {"role": "tool", "tool_call_id": "call_a", "content": "(interrupted)"}
    assert messages[4]["content"] == "hello?"


async def test_tool_turn_from_end_to_end(root):
    """A model that always calls the same tool under the same id (B04, B59)."""
    reply = json.dumps(
        {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": "",
                        "reasoning_content": "hm",
                        "tool_calls": [
                            {"id": "c", "function": {"name": "read_sensor", "arguments": ""}}
                        ],
                    }
                }
            ]
        }
    ).encode()
    registry = Registry([Sensor()])
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("how warm?"))
    rounds = ToolRounds(registry, 10)
    asked = 0
    stop = None
    while stop is None:
        messages = send(Request(session, SYSTEM, 99999, registry))["messages"]
        asked += 1
        pairs(messages)
        calls = [m for m in messages if "tool_calls" in m]
        assert len(calls) == asked - 1
        assert all(m["reasoning_content"] == "hm" for m in calls)
        handler = TurnHandler(session, None)
        reader = ReplyReader(handler)
        reader.feed(reply)
        reader.finish()
        assert handler.finish() == TOOL
        stop = await rounds.run(session, handler.calls)
    assert asked <= 11
    TurnHandler(session, None).fail(stop)
    session.finish()
    assert session.entry(session.count - 1)[2] == FINAL
    session.add_user(user_record("and now?"))
    messages = send(Request(session, [], 99999, registry))["messages"]
    roles = pairs(messages)
    assert roles[-2:] == ["assistant", "user"]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["21.5 \u00b0C"] * asked
    assert "reasoning_content" not in json.dumps(messages)
    messages = send(Request(session, [], 99999))["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "user"]


def test_a_damaged_record_is_skipped(root):
    session = SessionStore(root).open("chat:test:1")
    turn(session, "one", "1")
    turn(session, "two", "2")
    offset, length, _, _ = session.entry(1)
    session.close()
    with open(root + "/" + session.name, "r+b") as f:
        f.seek(offset)
        f.write(b"#" * length)
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("three"))
    request = Request(session, [], 9999)
    messages = send(request)["messages"]
    assert request.unreadable == 1
    assert [m["content"] for m in messages] == ["one\n\ntwo", "2", "three"]


def test_estimates():
    assert estimate_tokens(300) == 104
    assert estimate_tokens([300, 30]) == 118
    assert history_budget(8192, 1192, 1000, 0) == 20000
    assert history_budget(100, 500, 1000, 0) == 512


class Long:
    """A session of 3,000 records and 150 KB, made on the fly: it costs no heap itself."""

    count = 3000
    kinds = (1, 3, 4, 2, 1, 2)

    def __init__(self, tail=30):
        self.tail = b"x" * tail

    def record(self, i):
        rtype = self.kinds[i % 6]
        if rtype == 1:
            return b'{"role":"user","content":"' + self.tail + b'"}'
        if rtype == 2:
            return b'{"role":"assistant","content":"\xe4\xbd\xa0' + self.tail + b'"}'
        if rtype == 3:
            return (
                b'{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function",'
                b'"function":{"name":"f","arguments":"{}"}}]}' % i
            )
        return b'[{"role":"tool","tool_call_id":"c%d","content":"%s"}]' % (i - 1, self.tail)

    def entry(self, i):
        return 0, len(self.record(i)), self.kinds[i % 6], 1

    def chunks(self, i, buf):
        data = self.record(i)
        view = memoryview(buf)
        for at in range(0, len(data), len(buf)):
            n = min(len(buf), len(data) - at)
            view[:n] = data[at : at + n]
            yield view[:n]


def peak(session, budget):
    """Highest heap use above idle while the request is made, or -1 where that cannot be told."""
    if sys.implementation.name != "micropython":
        for _ in Request(session, SYSTEM, budget, Registry([Sensor()])).pieces(bytearray(256)):
            pass
        return -1
    # The code that reads records comes and goes with a request; here its data is measured.
    from upyclaw.prompt import history

    gc.collect()
    idle = gc.mem_alloc()
    high = 0
    n = 0
    buf = bytearray(256)
    for _ in Request(session, SYSTEM, budget, Registry([Sensor()])).pieces(buf):
        n += 1
        if n % 16 == 1:
            gc.collect()
            high = max(high, gc.mem_alloc() - idle)
    del history
    return high


def test_heap_for_many_records():
    high = peak(Long(), 10**6)
    assert high <= 6144, high


def test_heap_for_a_large_session_on_flash(root):
    session = SessionStore(root, 400000).open("chat:test:1")
    for i in range(150):
        turn(session, "question %d " % i + "why? " * 80, "answer " * 80)
    assert session.count == 300 and session.size > 140000
    session.add_user(user_record("now"))
    high = peak(session, 10**6)
    assert high <= 6144, high
    assert len(send(Request(session, [], 10**6))["messages"]) == 301


def test_heap_for_one_huge_record():
    class Huge(Long):
        count = 2
        kinds = (1, 2, 0, 0, 0, 0)

    session = Huge(20000)
    idle = len(session.tail) * 2
    high = peak(session, 10**6)
    # The stand-in session itself holds the record, twice while it makes it.
    assert high <= 6144 + idle, high
