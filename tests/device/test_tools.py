"""Tools: arguments, dispatch, rounds, the tools every board has (B14, B17, B40, B53, B59)."""

import asyncio
import json
import os

from upyclaw import compat
from upyclaw.compat import set_unix_time, unix_time
from upyclaw.llm.turn import Call
from upyclaw.storage import RESULT, TOOL, SessionStore, user_record
from upyclaw.tools.answers import zone_name
from upyclaw.tools.arguments import parse_arguments, strict_text
from upyclaw.tools.builtin import DeviceInfo, GetTime, builtin_tools
from upyclaw.tools.dispatch import run_call
from upyclaw.tools.registry import Registry
from upyclaw.tools.rounds import ToolRounds

CASES = (os.getenv("UPYCLAW_TEST_DATA") or "tests/data") + "/cases/"


class Echo:
    name = "set_pin"
    description = 'Sets a "pin".'
    schema = b'{"type":"object"}'

    def __init__(self, result="ok"):
        self.result = result
        self.seen = []

    async def run(self, args, context):
        self.seen.append(args)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Slow(Echo):
    name = "slow"
    seconds = 1

    async def run(self, args, context):
        await asyncio.sleep(30)


def call_of(text, name="set_pin", ident="c1", cut=False):
    call = Call()
    call.id = ident
    call.name = name
    call.add(text, 4096)
    call.close(cut)
    return call


def record(session, i):
    return b"".join(bytes(chunk) for chunk in session.chunks(i, bytearray(64)))


async def test_arguments_of_every_kind():
    with open(CASES + "B14.json", "rb") as f:
        cases = json.loads(f.read())["cases"]
    for case in cases:
        given = case["input"]["tool_calls"][0]["function"]["arguments"]
        text = "" if given is None else given if isinstance(given, str) else json.dumps(given)
        tool = Echo()
        result, bad = await run_call(Registry([tool]), call_of(text))
        if case["expected"].get("run") is False:
            assert tool.seen == [] and bad, case["name"]
            assert json.loads(result)["ok"] is False
        else:
            assert tool.seen == [case["expected"]["run_with"]], case["name"]
            assert (result, bad) == ("ok", False)


def test_arguments_with_line_ends():
    assert parse_arguments('{\n "a": "x\ty",\r\n "b": "q\\"\nz"}') == {"a": "x\ty", "b": 'q"\nz'}
    for bad in ("[1,2]", "7", '{"a":', '"{\\"a\\":"', "nonsense"):
        try:
            parse_arguments(bad)
        except ValueError:
            pass
        else:
            assert False, bad


def test_stored_arguments_are_strict_json():
    assert strict_text('{"a": 1}', {"a": 1}) == '{"a": 1}'
    assert json.loads(strict_text('{"a":"x\ny"}', {"a": "x\ny"})) == {"a": "x\ny"}
    assert call_of('{"a":"x\ny"}').raw != '{"a":"x\ny"}'
    assert call_of('{"path":"/n","text":"abc').raw == "{}"


async def test_cut_calls_are_not_run():
    tool = Echo()
    result, bad = await run_call(Registry([tool]), call_of('{"path":"/notes.txt"}', cut=True))
    assert bad and "not run" in result and tool.seen == []
    assert call_of('{"path":"/notes.txt"}', cut=True).raw == '{"path":"/notes.txt"}'
    long = call_of('{"a":"' + "x" * 5000 + '"}')
    result, bad = await run_call(Registry([tool]), long)
    assert bad and "4096" in result and tool.seen == [] and long.raw == "{}"


async def test_every_fault_becomes_a_result():
    registry = Registry([Echo(ValueError('bad "pin"')), Slow()])
    result, bad = await run_call(registry, call_of("{}"))
    assert bad and "bad" in json.loads(result)["error"]
    result, bad = await run_call(registry, call_of("{}", "nope"))
    assert bad and "nope" in result and "set_pin" in result
    result, bad = await run_call(registry, call_of("{}", "slow"))
    assert bad and "1 seconds" in result
    registry = Registry([Echo(MemoryError())])
    result, bad = await run_call(registry, call_of("{}"))
    assert bad and "memory" in result


async def test_results_are_clean_and_short():
    for given, check in (
        ("", lambda text: text == "(no output)"),
        (None, lambda text: text == "(no output)"),
        (" \n", lambda text: text == "(no output)"),
        ({"a": 1}, lambda text: json.loads(text) == {"a": 1}),
        (b"temp \xff\xfe 21\xc3", lambda text: "temp" in text and "21" in text),
        ("data:image/jpeg;base64," + "QUJD" * 15000, lambda text: "left out" in text),
        ("\u884c\u53f7\u4e00\u4e8c\u4e09 " * 2000, lambda text: "left out" in text),
    ):
        text, bad = await run_call(Registry([Echo(given)]), call_of("{}"))
        assert check(text) and not bad, text[:80]
        assert len(text.encode()) <= 4096


async def cancel(work):
    """Cancel `work` once it has begun; it must end by that."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    assert False


async def test_cancel_passes_through():
    await cancel(run_call(Registry([Slow()]), call_of("{}", "slow")))


def test_schemas():
    registry = Registry(builtin_tools("sim"))
    registry.add(Echo())
    registry.add(Echo("new"))
    assert registry.names() == ["get_time", "device_info", "set_pin"]
    assert registry.get("set_pin").result == "new"
    tools = json.loads(b"[" + b",".join(registry.schemas()) + b"]")
    assert tools[2]["function"]["description"] == 'Sets a "pin".'
    assert (
        tools[0]["type"] == "function" and tools[0]["function"]["parameters"]["type"] == "object"
    )
    assert registry.size() == len(b",".join(registry.schemas())) + 1


def open_turn(root):
    session = SessionStore(root).open("chat:test:1")
    session.add_user(user_record("go"))
    session.begin(TOOL)
    session.write(b'{"role":"assistant","content":null,"tool_calls":[]}')
    session.end()
    return session


async def test_results_record(root):
    session = open_turn(root)
    noted = []
    rounds = ToolRounds(Registry([Echo('21 "C"\n\u00b0')]), note=noted.append)
    calls = [call_of("{}", ident='c"1'), call_of('{"a":', ident="c2")]
    assert await rounds.run(session, calls, None) is None
    assert session.entry(2)[2] == RESULT
    data = record(session, 2)
    assert data.startswith(b'[{"role":"tool","tool_call_id":"c\\"1","content":"21 \\"C\\"\\n')
    results = json.loads(data)
    assert [r["tool_call_id"] for r in results] == ['c"1', "c2"]
    assert [r["is_error"] for r in results] == [False, True]
    assert results[0]["content"] == '21 "C"\n\u00b0'
    assert noted == ["set_pin"]


async def test_rounds_end(root):
    session = open_turn(root)
    rounds = ToolRounds(Registry([Echo("21")]))
    stops = []
    for _ in range(4):
        stops.append(await rounds.run(session, [call_of("{}")]))
    assert stops[:3] == [None, None, None] and "same" in stops[3]
    tool = Echo("")
    rounds = ToolRounds(Registry([tool]), 6)
    stops = []
    for i in range(6):
        tool.result = str(i)
        stops.append(await rounds.run(session, [call_of("{}")]))
    assert stops[:5] == [None] * 5 and "6 rounds" in stops[5]
    rounds = ToolRounds(Registry([tool]))
    stops = []
    for i in range(3):
        stops.append(await rounds.run(session, [call_of('{"a":"%d' % i)]))
    assert stops[:2] == [None, None] and "max_tokens" in stops[2]
    session.finish()


async def test_cancelled_round_leaves_no_half_record(root):
    session = open_turn(root)
    before = session.count
    rounds = ToolRounds(Registry([Slow()]))
    await cancel(rounds.run(session, [call_of("{}", "slow")]))
    assert session.count == before
    session.finish()
    for i in range(session.count):
        json.loads(record(session, i))


async def test_time():
    tool = GetTime(lambda: 3600)
    before = compat._clock_shift
    set_unix_time(1796026877)
    assert unix_time() - 1796026877 < 5
    text = await tool.run({}, None)
    compat._clock_shift = before
    # 1796026877 is 2026-11-30 08:21:17 UTC.
    assert text.startswith("2026-11-30 09:21:"), text
    assert text.endswith("Monday, UTC+01:00")
    assert zone_name(-12600) == "UTC-03:30" and zone_name(0) == "UTC"


async def test_device_info():
    info = json.loads(await DeviceInfo("sim", ".").run({}, None))
    assert info["board"] == "sim" and info["uptime_s"] >= 0
    assert info["flash_free"] > 0 and info["flash_size"] >= info["flash_free"]
