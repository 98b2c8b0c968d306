"""Device code and witness share nothing, and must see the same bytes alike."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from unit.formats_help import damage, folder_pairs, pair_of, session_folder, write_pair
from upyclaw.storage import SessionStore, session_file_name, user_record
from upyclaw.storage.chatmap import map_file_name
from upyclaw_host.formats import names
from upyclaw_host.formats.catalog import load_catalog
from upyclaw_host.formats.index import RecordType
from upyclaw_host.formats.messages import dump
from upyclaw_host.formats.session import SessionPair
from upyclaw_host.source import DirectorySource

_SID = "chat:serial:1:default_01"
_words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
_call = st.builds(
    lambda t: {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": t}}],
    },
    _words,
)
_result = st.builds(lambda t: [{"role": "tool", "tool_call_id": "c", "content": t}], _words)
_final = st.builds(lambda t: {"role": "assistant", "content": t}, _words)
_turn = st.tuples(_words, st.lists(st.tuples(_call, _result), max_size=2), _final, st.booleans())


def _read(folder: str) -> SessionPair:
    """The session as the witness reads it, where it lies (a lagging idx is no fault)."""
    source = DirectorySource(Path(folder))
    source.live = True
    return load_catalog(source).find(_SID).pair


def _faults(pair: SessionPair) -> list[str]:
    return [finding.code for finding in pair.findings if finding.is_fault]


def _raw(session, i: int) -> bytes:
    return b"".join(bytes(view) for view in session.chunks(i, bytearray(37)))


def _append(session, rtype: int, value: object) -> bytes:
    raw = dump(value).encode()
    session.begin(rtype, 1)
    for at in range(0, len(raw), 29):
        session.write(raw[at : at + 29])
    session.end()
    return raw


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=90))
def test_file_names_are_the_same(sid):
    assert session_file_name(sid) == names.session_file_name(sid)
    assert map_file_name(sid) == names.chat_map_file_name(sid)


@given(_words)
def test_a_user_record_is_the_text(text):
    raw = user_record(text)
    pair = pair_of(*write_pair([(1, 1, raw)]))
    assert pair.records[0].value == {"role": "user", "content": text[:4096]} and not _faults(pair)
    assert raw == dump({"role": "user", "content": text}).encode()


@given(st.lists(_turn, max_size=5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_the_device_writes_the_witness_reads(turns, closed):
    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(folder)
        session = store.open(_SID)
        wanted: list[tuple[int, bytes]] = []
        for text, rounds, final, answered in turns:
            raw = user_record(text)
            session.add_user(raw)
            wanted.append((1, raw))
            seen = _read(folder)
            assert seen.pending and seen.records[-1].raw == raw and not _faults(seen)
            for call, result in rounds:
                wanted.append((3, _append(session, 3, call)))
                wanted.append((4, _append(session, 4, result)))
                session.sync()
            if answered:
                wanted.append((2, _append(session, 2, final)))
            session.finish(answered)
            seen = _read(folder)
            assert [r.raw for r in seen.records] == [raw for _, raw in wanted]
            assert not _faults(seen)
        if not turns:
            return
        if closed:
            session.close()
        pair = _read(folder)
        assert [(r.rtype, r.raw) for r in pair.records] == wanted and not _faults(pair)
        if closed:
            assert len(pair.index.entries) == len(wanted) and not pair.unindexed
        again = SessionStore(folder).open(_SID)
        assert [_raw(again, i) for i in range(again.count)] == [raw for _, raw in wanted]


@given(st.lists(_turn, min_size=1, max_size=3), st.data())
@settings(max_examples=120, deadline=None)
def test_after_recovery_both_see_at_least_every_complete_line(turns, drawn):
    draw = drawn.draw
    records = []
    for text, rounds, final, _ in turns:
        records.append((1, 1, user_record(text)))
        for call, result in rounds:
            records += [(3, 1, dump(call).encode()), (4, 1, dump(result).encode())]
        records.append((2, 1, dump(final).encode()))
    data, idx = map(bytearray, write_pair(records))
    for _ in range(draw(st.integers(1, 3))):
        damage(draw, data if draw(st.booleans()) else idx)
    foreign = idx[:4] == b"CHDX" and idx[4:6] != b"\x01\x00" and len(idx) >= 8
    lines = bytes(data).split(b"\n")[:-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, session_file_name(_SID))
        path.write_bytes(data)
        path.with_name(path.name + ".idx").write_bytes(idx)
        store = SessionStore(folder)
        session = store.open(_SID)
        assert session.count >= len(lines)
        after = path.read_bytes()
        assert after.split(b"\n")[: len(lines)] == lines
        session.add_user(user_record("goes on"))
        _append(session, 2, {"role": "assistant", "content": "yes"})
        session.finish(True)
        session.close()
        if foreign:
            return
        pair = _read(folder)
        assert len(pair.records) == session.count
        entries = [session.entry(i) for i in range(session.count)]
        assert [(r.offset, r.length - 1) for r in pair.records] == [e[:2] for e in entries]
        assert [r.raw for r in pair.records] == [_raw(session, i) for i in range(session.count)]
        for record, entry in zip(pair.records, entries, strict=True):
            assert record.rtype == entry[2]


@given(st.lists(_turn, min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_types_and_formats_are_inferred_alike(turns):
    records = []
    for text, rounds, final, _ in turns:
        records.append(user_record(text))
        for call, result in rounds:
            records += [dump(call).encode(), dump(result).encode()]
        blocks = {"role": "assistant", "content": [{"type": "text", "text": final["content"]}]}
        use = {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": text}]}
        state = {"role": "assistant", "content": "", "_claw_provider_state": {"output": []}}
        records += [dump(value).encode() for value in (final, blocks, use, state)]
    data = b"".join(raw + b"\n" for raw in records)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, session_file_name(_SID)).write_bytes(data)
        session = SessionStore(folder).open(_SID)
        told = [session.entry(i) for i in range(session.count)]
    seen = pair_of(data, None).records
    assert [(r.offset, r.length - 1, r.rtype, r.fmt) for r in seen] == told


def test_golden_sessions_are_read_alike():
    folders = ["a_simple_3_turns", "b_openai_tools", "f_anthropic"]
    for name in folders:
        folder = session_folder(name + "/after")
        (base, pair), *_ = folder_pairs(folder).items()
        with tempfile.TemporaryDirectory() as copy:
            for path in folder.glob("s_*"):
                Path(copy, path.name).write_bytes(path.read_bytes())
            sid = json.loads((folder.parent / "scenario.json").read_text())["steps"]
            sid = next(step["session"] for step in sid if step["op"] == "load")
            session = SessionStore(copy).open(sid)
            assert session.name == base
            for record in pair.records:
                entry = session.entry(record.number)
                assert entry == (record.offset, record.length - 1, record.rtype, record.fmt)
                assert _raw(session, record.number) == record.raw


def test_unknown_lines_are_kept_by_both():
    lines = [user_record("a"), b"no json at all", b"", b'{"role":"assistant","content":"b"}']
    data = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, session_file_name(_SID)).write_bytes(data)
        session = SessionStore(folder).open(_SID)
        assert [_raw(session, i) for i in range(session.count)] == lines
    pair = pair_of(data, None)
    assert [r.raw for r in pair.records] == lines
    assert [r.rtype for r in pair.records] == [
        RecordType.USER,
        RecordType.UNKNOWN,
        RecordType.UNKNOWN,
        RecordType.FINAL,
    ]
