"""The streaming scanner says of any line what a JSON parser says, whatever the pieces are."""

import json

from upyclaw.storage.codec import FINAL, RESULT, TOOL, USER
from upyclaw.storage.scan import Scan

CASES = (
    (b'{"role":"user","content":"hi"}', USER, 9),
    (b'{"content":"\\"role\\":\\"tool\\"","role":"user"}', USER, 9),
    (b'{"role":"assistant","content":"a \\\\"}', FINAL, 9),
    (b'{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{}}]}', TOOL, 1),
    (b'{"role":"assistant","content":"x","tool_calls":[]}', FINAL, 9),
    (b'{"role":"assistant","content":"\\"tool_calls\\":[{"}', FINAL, 9),
    (b'{"tool_calls":[{"role":"user"}],"role":"assistant"}', TOOL, 1),
    (b'{"role":"assistant","content":[{"type":"text","text":"tool_use"}]}', FINAL, 2),
    (b'{"role":"assistant","content":[{"type":"tool_use","id":"t","input":{}}]}', TOOL, 2),
    (b'{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use"}]}', TOOL, 2),
    (b'{"role":"assistant","content":"x","_claw_provider_state":{"role":"user"}}', FINAL, 3),
    (b'[{"role":"tool","tool_call_id":"c","content":"r","is_error":false}]', RESULT, 9),
    (b"[]", RESULT, 9),
    (b'{"role":"tool","content":"r"}', RESULT, 9),
    (b'{"role":"system","content":"r"}', FINAL, 9),
    (b"{}", FINAL, 9),
    (b'{ "role" : "user" , "content" : "\\u4f60" }', USER, 9),
)
NOT_JSON = (
    b"",
    b'{"role":"user"',
    b'{"role":"user"}}',
    b'{"role":"user"}x',
    b'{"role":"user"} {}',
    b'{"role":"user","content":"a\0b"}',
    b'{"role":"user]',
    b'{"a":[1}',
    b'"text"',
    b"hello",
    b"\xff\xff",
)


def scan(line, size):
    s = Scan()
    for i in range(0, len(line), size):
        s.feed(line[i : i + size])
    return s


def test_types_and_formats_do_not_depend_on_the_pieces():
    for line, rtype, fmt in CASES:
        for size in (1, 2, 3, 7, 16, 1000):
            s = scan(line, size)
            assert s.valid(), line
            assert s.kind() == rtype, (line, size, s.kind())
            assert s.fmt(9) == fmt, (line, size)


def test_what_is_not_json_is_seen():
    for line in NOT_JSON:
        for size in (1, 3, 1000):
            assert not scan(line, size).valid(), line


def without(line, size):
    out = b""
    at = 0
    for a, b in scan(line, size).spans:
        out += line[at:a]
        at = b
    return out + line[at:]


def test_reasoning_is_cut_out_cleanly():
    for line, left in (
        (b'{"role":"assistant","reasoning_content":"h,m}","content":"x"}', {"content": "x"}),
        (b'{"role":"assistant","content":"x","reasoning_content":null}', {"content": "x"}),
        (b'{"reasoning_content":"a","role":"assistant","content":"y"}', {"content": "y"}),
        (b'{"reasoning_content":"a","reasoning":{"b":[1]},"role":"assistant"}', {}),
        (b'{"role":"assistant","reasoning":"a","reasoning_content":"b"}', {}),
        (b'{"role":"assistant","content":"\\"reasoning\\":1"}', {"content": '"reasoning":1'}),
    ):
        left["role"] = "assistant"
        for size in (1, 4, 1000):
            assert json.loads(without(line, size)) == left, (line, size)
    assert without(b'{"reasoning":"only"}', 5) == b"{}"


def test_contents_of_results_are_found():
    line = (
        b'[{"role":"tool","tool_call_id":"a","content":"x\\"y","is_error":false},'
        b'{"content":[1,{"content":2}],"role":"tool"}]'
    )
    for size in (1, 5, 1000):
        got = [line[a:b] for a, b in scan(line, size).spans]
        assert got == [b'"x\\"y"', b'[1,{"content":2}]'], got
