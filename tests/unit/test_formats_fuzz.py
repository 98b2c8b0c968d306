"""Random histories are read whole; random damage never raises and never costs a complete line."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from unit.formats_help import pair_of, write_pair
from upyclaw_host.formats.export import jsonl, markdown, openai
from upyclaw_host.formats.index import Backend, RecordType, pack_index
from upyclaw_host.formats.jsontext import parse
from upyclaw_host.formats.messages import dump, history, messages_of, turns

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_ids = st.sampled_from(["c1", "c2", "call_9", ""])


def _openai_call(args: tuple[str, str, str]) -> dict:
    ident, name, arguments = args
    return {
        "id": ident,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps({"x": arguments})},
    }


_user = st.builds(lambda t: {"role": "user", "content": t}, _texts)
_final = st.one_of(
    st.builds(lambda t: {"role": "assistant", "content": t}, _texts),
    st.builds(
        lambda t: {"role": "assistant", "content": [{"type": "text", "text": t}]},
        _texts,
    ),
)
_tool = st.one_of(
    st.builds(
        lambda t, calls: {
            "role": "assistant",
            "content": t or None,
            "tool_calls": [_openai_call(c) for c in calls],
        },
        _texts,
        st.lists(st.tuples(_ids, _texts, _texts), min_size=1, max_size=3),
    ),
    st.builds(
        lambda t, i: {
            "role": "assistant",
            "content": [
                {"type": "text", "text": t},
                {"type": "tool_use", "id": i, "name": "n", "input": {"q": t}},
            ],
        },
        _texts,
        _ids,
    ),
)
_result = st.builds(
    lambda results: [
        {"role": "tool", "tool_call_id": i, "content": t, "is_error": e} for i, t, e in results
    ],
    st.lists(st.tuples(_ids, _texts, st.booleans()), max_size=3),
)
_record = st.one_of(
    st.tuples(st.just(1), st.integers(0, 3), _user),
    st.tuples(st.just(2), st.integers(0, 3), _final),
    st.tuples(st.just(3), st.integers(0, 3), _tool),
    st.tuples(st.just(4), st.integers(0, 3), _result),
)
_records = st.lists(_record, max_size=12)
_wire = st.lists(
    st.one_of(
        _record.map(lambda r: dump(r[2]).encode()),
        st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")),
        st.sampled_from([b"[[[[", b'"x"', b"1e999", b"[" * 1500, b"null", b'{"role":5}']),
    ),
    max_size=8,
)


def _everything(pair) -> None:
    """Use every view of a pair: none may raise."""
    for backend in Backend:
        history(pair.records, backend)
    for turn in turns(pair.records):
        assert turn.messages is not None
    list(jsonl(pair))
    markdown(pair, "x").encode("utf-8", "surrogatepass")
    openai(pair.records)
    for finding in pair.findings:
        finding.as_dict()


@given(_records)
def test_random_histories_are_read_whole(records):
    stored = [(rtype, fmt, dump(value).encode()) for rtype, fmt, value in records]
    data, idx = write_pair(stored)
    pair = pair_of(data, idx)
    assert [(r.rtype, r.fmt, r.raw, r.value) for r in pair.records] == [
        (RecordType(rtype), Backend(fmt), raw, value)
        for (rtype, fmt, raw), (_, _, value) in zip(stored, records, strict=True)
    ]
    assert not pair.fragments and not [f for f in pair.findings if f.is_fault]
    entries = [(r.offset, r.length, int(r.rtype), int(r.fmt)) for r in pair.records]
    assert pack_index(entries) == idx
    _everything(pair)


@given(_records, st.data())
def test_without_its_idx_a_history_is_the_same(records, draw):
    data, idx = write_pair([(t, f, dump(v).encode()) for t, f, v in records])
    keep = draw.draw(st.integers(0, len(idx)))
    pair = pair_of(data, idx[:keep] if keep else None)
    assert [r.raw for r in pair.records] == [dump(v).encode() for _, _, v in records]
    assert [r.rtype for r in pair.records] == [RecordType(t) for t, _, _ in records]


@given(_wire, st.binary(max_size=60), st.binary(max_size=40), st.booleans())
@settings(max_examples=150)
def test_any_bytes_are_read_and_no_line_is_lost(lines, idx, waiting, headed):
    data = b"".join(line + b"\n" for line in lines)
    if headed:
        idx = b"CHDX\x01\x00\x0a\x00" + idx
    pair = pair_of(data, idx, open=waiting)
    shown = [r for r in pair.records if r.offset < len(data)]
    # An entry may join lines into one record only where they are one JSON value.
    assert sum(r.raw.count(b"\n") + 1 for r in shown) >= len(lines)
    _everything(pair)


@given(_records, st.data())
@settings(max_examples=150)
def test_random_damage_never_raises_and_keeps_every_line(records, draw):
    data, idx = write_pair([(t, f, dump(v).encode()) for t, f, v in records])
    both = [bytearray(data), bytearray(idx)]
    for _ in range(draw.draw(st.integers(1, 4))):
        part = both[draw.draw(st.integers(0, 1))]
        kind = draw.draw(st.sampled_from(["flip", "cut", "insert", "zero"]))
        if not part:
            continue
        at = draw.draw(st.integers(0, len(part) - 1))
        if kind == "flip":
            part[at] ^= 1 << draw.draw(st.integers(0, 7))
        elif kind == "cut":
            del part[at:]
        elif kind == "insert":
            part[at:at] = draw.draw(st.binary(min_size=1, max_size=12))
        else:
            part[at : at + 8] = bytes(len(part[at : at + 8]))
    pair = pair_of(bytes(both[0]), bytes(both[1]))
    lines = bytes(both[0]).count(b"\n")
    assert sum(r.raw.count(b"\n") + 1 for r in pair.records) >= lines
    _everything(pair)


@given(st.binary(max_size=80))
def test_any_record_bytes_parse_or_are_told(raw):
    parsed = parse(raw)
    assert parsed.ok or any(p.code == "not-json" for p in parsed.problems)
    assert all(0 <= p.at <= len(raw) for p in parsed.problems)


def test_a_session_of_the_largest_size_is_read_quickly():
    records = [
        (1 + i % 2, 1, dump({"role": "user", "content": "x" * 30}).encode()) for i in range(2700)
    ]
    data, idx = write_pair(records)
    # An idx that claims overlapping pieces of everything is the worst that can be told.
    evil = pack_index([(i, len(data) - i, 1, 1) for i in range(2000)])
    pair = pair_of(data, idx[:8] + evil[8:] + idx[8:])
    assert len(pair.records) == 2700


def test_messages_of_strange_values_are_readable():
    strange = [
        b"7",
        b'{"role":"assistant","content":{"text":"a"}}',
        b'{"role":"assistant","content":[["x"],{"type":"image"},5]}',
        b'{"role":"assistant","tool_calls":[5,{"id":3,"function":"f"},{"function":{"name":[]}}]}',
        b'{"content":"no role"}',
        b'[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]',
    ]
    data, idx = write_pair([(2, 1, raw) for raw in strange])
    told = [messages_of(r) for r in pair_of(data, idx).records]
    assert [m[0].role for m in told] == ["damaged", *["assistant"] * 3, "damaged", "tool"]
    assert told[1][0].text == "a" and told[2][0].text == "x"
    assert [c.name for c in told[3][0].calls] == ["", "[]"]
    assert (told[5][0].call_id, told[5][0].text) == ("a", "r")
