"""One turn on the device with a scripted model: order of records, faults, stop rules."""

import asyncio
import json

from upyclaw.agent import Agent
from upyclaw.channels.chat import SerialChat
from upyclaw.config import defaults
from upyclaw.llm.errors import LLMError
from upyclaw.storage import SessionStore
from upyclaw.tools.registry import Registry

CHAT = "chat:test:1"


class Model:
    """A model client: each step is text, a list of (tool name, arguments), or an exception."""

    available = True
    why = "no model"
    model = "test"
    context = 8192
    tools = True

    def __init__(self, *steps):
        self.steps = list(steps)
        self.requests = []

    async def chat(self, request, handler, kind="chat", timeout_ms=0):
        body = b"".join([bytes(piece) for piece in request.pieces(bytearray(128))])
        self.requests.append(json.loads(body))
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        await asyncio.sleep(0)
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, int):
            await asyncio.sleep(step)
        elif isinstance(step, str):
            handler.on_text(step)
            await handler.drain()
            handler.on_end("stop", {"total_tokens": 1})
        else:
            for i in range(len(step)):
                handler.on_tool(i, "c{}_{}".format(len(self.requests), i), step[i][0], step[i][1])
            handler.on_end("tool_calls", None)

    def messages(self, number=-1):
        found = []
        for message in self.requests[number]["messages"]:
            if message["role"] != "system":
                found.append((message["role"], message["content"]))
        return found


class Sink:
    def __init__(self):
        self.words = ""
        self.notes = []
        self.fields = None

    def text(self, piece):
        self.words += piece

    async def drain(self):
        pass

    async def note(self, sentence):
        self.notes.append(sentence)

    async def end(self, fields):
        self.fields = fields


class Echo:
    name = "echo"
    description = "Says it again."
    schema = b'{"type":"object","properties":{"text":{"type":"string"}}}'

    def __init__(self):
        self.calls = []

    async def run(self, args, context):
        self.calls.append(args)
        return "echo " + args.get("text", "")


def agent_for(root, model, tool=None, limit=153600):
    settings = defaults()
    tools = Registry([tool or Echo()])
    return Agent(SessionStore(root, limit), model, settings, lambda memory: tools)


async def ask(agent, text):
    sink = Sink()
    fields = await agent.answer(CHAT, text, sink)
    return fields, sink


def records(agent):
    session = agent.session(CHAT)
    out = []
    for i in range(session.count):
        data = b"".join([bytes(piece) for piece in session.chunks(i, bytearray(64))])
        out.append((session.entry(i)[2], json.loads(data)))
    return out


async def test_a_plain_turn(root):
    model = Model("Hello!")
    agent = agent_for(root, model)
    fields, sink = await ask(agent, "  hi ")
    assert fields["ok"] and fields["session"] == "default_01"
    assert sink.words == "Hello!" and sink.notes == []
    assert model.messages() == [("user", "hi")]
    assert records(agent) == [
        (1, {"role": "user", "content": "hi"}),
        (2, {"role": "assistant", "content": "Hello!"}),
    ]
    again = agent_for(root, model)
    await ask(again, "next")
    assert model.messages() == [("user", "hi"), ("assistant", "Hello!"), ("user", "next")]


async def test_a_long_line_is_stored_and_sent_whole(root):
    model = Model("ok")
    agent = agent_for(root, model)
    text = "word " * 1600 + "end"
    await ask(agent, text)
    assert model.messages() == [("user", text)]
    assert records(agent)[0][1]["content"] == text


async def test_user_record_is_there_when_the_model_is_called(root):
    """B18."""
    agent = None
    seen = []

    class Looking(Model):
        async def chat(self, request, handler, kind="chat", timeout_ms=0):
            other = SessionStore(root)
            seen.append(other.open(CHAT + ":default_01").count)
            await Model.chat(self, request, handler, kind, timeout_ms)

    agent = agent_for(root, Looking("fine"))
    await ask(agent, "note: the gate code changed")
    assert seen == [1]


async def test_tools_run_and_the_answer_follows(root):
    tool = Echo()
    model = Model([("echo", '{"text":"a"}'), ("echo", '{"text":"b"}')], "done")
    agent = agent_for(root, model, tool)
    fields, sink = await ask(agent, "go")
    assert fields["ok"] and sink.words == "done"
    assert [call["text"] for call in tool.calls] == ["a", "b"]
    assert [role for role, _ in model.messages()] == ["user", "assistant", "tool", "tool"]
    assert [rtype for rtype, _ in records(agent)] == [1, 3, 4, 2]


async def test_an_endless_tool_loop_stops(root):
    """B59."""
    model = Model([("echo", '{"text":"same"}')])
    agent = agent_for(root, model)
    fields, sink = await ask(agent, "go")
    assert fields["ok"] and "stopped" in sink.words
    assert len(model.requests) <= 10
    assert records(agent)[-1][0] == 2
    model.steps = ["fine"]
    assert (await ask(agent, "and now?"))[0]["ok"]


async def test_failures_leave_a_short_note(root):
    """B11: no error body in the session, the next request holds what was done."""
    model = Model(
        [("echo", '{"text":"a"}')],
        LLMError("server", "The model server failed: " + "x" * 150, 500),
        "yes",
    )
    agent = agent_for(root, model)
    fields, sink = await ask(agent, "do two things")
    assert not fields["ok"] and "failed" in fields["error"]
    assert records(agent)[-1] == (
        2,
        {"role": "assistant", "content": "[turn failed: server error 500]"},
    )
    fields, _ = await ask(agent, "continue")
    assert fields["ok"]
    assert [role for role, _ in model.messages()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


async def test_a_request_too_long_is_sent_again_shorter(root):
    model = Model("answer " * 60)
    agent = agent_for(root, model)
    for i in range(40):
        await ask(agent, "question {} ".format(i) + "why " * 60)
    model.steps = [LLMError("context", "too long", 400)] * 2 + ["short enough"]
    before = len(model.requests)
    fields, sink = await ask(agent, "the last one")
    assert fields["ok"] and sink.words == "short enough"
    sizes = [len(r["messages"]) for r in model.requests[before:]]
    assert sizes[0] > sizes[1] > sizes[2] > 1
    assert model.messages()[-1] == ("user", "the last one")
    model.steps = [LLMError("context", "too long", 400)]
    fields, _ = await ask(agent, "and again")
    assert not fields["ok"]


async def test_a_fault_of_ours_does_not_hang(root):
    model = Model(TypeError("oops"), MemoryError(), "fine")
    agent = agent_for(root, model)
    for _ in range(2):
        fields, _ = await ask(agent, "one")
        assert not fields["ok"] and fields["error"]
    fields, sink = await ask(agent, "two")
    assert fields["ok"] and sink.words == "fine"
    assert [role for role, _ in model.messages()][-1] == "user"


async def test_an_unreadable_record_is_told_once(root):
    """B55, issue: a record that is not JSON is kept, skipped, reported."""
    model = Model("ok")
    agent = agent_for(root, model)
    await ask(agent, "one")
    session = agent.session(CHAT)
    session.add_user(b'{"role":"user","content":}', 1)
    session.finish()
    _, sink = await ask(agent, "two")
    assert len(sink.notes) == 1 and "cannot be read" in sink.notes[0]
    _, sink = await ask(agent, "three")
    assert sink.notes == []
    assert model.messages()[0] == ("user", "one") and model.messages()[-1] == ("user", "three")


async def test_stop_closes_the_turn(root):
    model = Model(30, "fine")
    agent = agent_for(root, model)
    sink = Sink()
    task = asyncio.create_task(agent.answer(CHAT, "slow one", sink))
    await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    fields = await task
    assert fields["error"] == "Stopped."
    assert records(agent)[-1][1]["content"] == "[stopped by the user]"
    assert (await ask(agent, "next"))[0]["ok"]


async def test_a_turn_gives_way_when_the_link_has_no_room(root):
    agent = agent_for(root, Model(30))
    asked = asyncio.create_task(ask(agent, "hi"))
    while not agent.client.requests:
        await asyncio.sleep(0)
    agent.relieve()
    fields, _ = await asked
    assert not fields["ok"] and "memory" in fields["error"]
    agent.relieve()
    agent.client.steps = ["Hello!"]
    fields, sink = await ask(agent, "hi again")
    assert fields["ok"] and sink.words == "Hello!"
    assert [r for r, _ in records(agent)] == [1, 2, 1, 2]


async def test_no_model_stores_nothing(root):
    model = Model("never")
    model.available = False
    agent = agent_for(root, model)
    fields, _ = await ask(agent, "hi")
    assert not fields["ok"] and fields["error"] == "no model"
    assert agent.session(CHAT).count == 0
    fields, sink = await ask(agent, "/status")
    assert fields["ok"] and "no model" in sink.words


async def test_blank_lines_and_unknown_commands(root):
    """B40."""
    model = Model("never")
    agent = agent_for(root, model)
    assert (await ask(agent, "   "))[0]["ok"]
    fields, sink = await ask(agent, "/nonsense")
    assert not fields["ok"] and "/help" in sink.words
    for line in ("/session", "/session list"):
        fields, sink = await ask(agent, line)
        assert fields["ok"] and sink.words.startswith("Sessions:")
    assert model.requests == [] and agent.session(CHAT).count == 0


async def test_sessions_by_command(root):
    model = Model("ok")
    agent = agent_for(root, model)
    await ask(agent, "in the first")
    fields, sink = await ask(agent, "/session new work")
    assert fields["ok"] and fields["session"] == "work"
    await ask(agent, "in the second")
    assert model.messages() == [("user", "in the second")]
    _, sink = await ask(agent, "/session list")
    assert "* default_01" in sink.words and "* work" in sink.words and "(current)" in sink.words
    fields, sink = await ask(agent, "/session switch default_01")
    assert fields["session"] == "default_01"
    fields, sink = await ask(agent, "/session delete work")
    assert fields["ok"]
    _, sink = await ask(agent, "/session list")
    assert "work" not in sink.words
    _, sink = await ask(agent, "/session info")
    assert "2 records" in sink.words


async def test_lines_of_one_chat_come_in_order(root):
    """B38."""
    model = Model("answer")
    agent = agent_for(root, model)
    await asyncio.gather(*[agent.answer(CHAT, "line {}".format(i), Sink()) for i in range(4)])
    assert [rtype for rtype, _ in records(agent)] == [1, 2] * 4


class FakeLink:
    def on(self, stream, fn):
        self.take = fn

    def on_line(self, fn):
        self.typed = fn

    def on_state(self, fn):
        pass

    async def send(self, stream, data, end=True):
        self.sent.append(json.loads(data))

    def __init__(self):
        self.sent = []


async def test_serial_chat_refuses_in_words():
    link = FakeLink()
    gate = asyncio.Event()

    async def answer(chat, text, sink):
        await gate.wait()
        return {"ok": True, "error": None}

    chat = SerialChat(link, CHAT, answer)
    task = asyncio.create_task(chat.run())
    link.take(b'{"id":1,"text":"', False)
    for _ in range(40):
        link.take(b"x" * 230, False)
    link.take(b'"}', True)
    for i in range(2, 9):
        link.take(b'{"id":%d,"text":"hi"}' % i, True)
    for _ in range(10):
        await asyncio.sleep(0)
    gate.set()
    for _ in range(40):
        await asyncio.sleep(0)
    task.cancel()
    ends = {}
    for event in link.sent:
        ends[event["id"]] = event
    assert sorted(ends) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert "longer than" in ends[1]["error"]
    assert ends[2]["ok"]
    assert not ends[8]["ok"] and "waiting" in ends[8]["error"]
