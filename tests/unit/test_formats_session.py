"""The witness reads pairs: golden folders, the damage table, and what users reported."""

from __future__ import annotations

import hashlib
import json

import pytest

from unit.formats_help import (
    GOLDEN,
    b64,
    case,
    codes,
    folder_pairs,
    pair_of,
    session_folder,
    write_pair,
)
from upyclaw_host.formats.findings import Severity
from upyclaw_host.formats.index import Backend, RecordType
from upyclaw_host.formats.messages import dump, history, messages_of, turns
from upyclaw_host.formats.names import session_file_name
from upyclaw_host.formats.records import Origin

_BACKENDS = {
    "openai_compatible": Backend.OPENAI,
    "anthropic_compatible": Backend.ANTHROPIC,
    "openai_responses": Backend.RESPONSES,
}
_DAMAGE = GOLDEN / "sessions" / "g_damage"
_TABLE = json.loads((_DAMAGE / "damage_table.json").read_text())
_FOLDERS = [
    "a_simple_3_turns/after",
    "b_openai_tools/after",
    "d1_exactly_150KiB/after",
    "d2_150KiB_plus_1_before/after",
    "d2_150KiB_plus_1_after/after",
    "d3_compaction_shapes/after",
    "e_blocked/blocked",
    "f_anthropic/after",
    "f_anthropic/mixed_backends",
]


def _loads_until(folder: str) -> tuple[dict, list[dict]]:
    """Config and the reference's loads that show the state of the last snapshot `folder`."""
    name, _, snapshot = folder.partition("/")
    scenario = json.loads((session_folder(name) / "scenario.json").read_text())
    backend = scenario["config"].get("backend_type")
    loads: list[dict] = []
    current: list[dict] = []
    for step in scenario["steps"]:
        if step["op"] == "persist":
            current = []
        elif step["op"] == "init":
            backend = step.get("config", step).get("backend_type", backend)
        elif step["op"] == "load":
            current.append({**step, "backend": backend})
        if step["op"] == "snapshot" and step["dir"] == snapshot:
            loads = list(current)
            take = True
        elif step["op"] == "load" and loads and take:
            loads.append(current[-1])
        elif step["op"] == "persist":
            take = False
    return scenario, loads


@pytest.mark.parametrize("folder", _FOLDERS)
def test_golden_sessions_read_as_the_reference_reads_them(folder):
    pairs = folder_pairs(session_folder(folder))
    _, loads = _loads_until(folder)
    assert loads
    for load in loads:
        pair = pairs[session_file_name(load["session"])]
        assert not codes(pair)
        assert not pair.fragments and not pair.unindexed
        backend = _BACKENDS.get(load["backend"] or "", Backend.UNKNOWN)
        text = dump(history(pair.records, backend))
        if "json" in load:
            assert json.loads(text) == json.loads(load["json"])
        else:
            assert len(text.encode()) == load["json_bytes"]
            assert hashlib.sha256(text.encode()).hexdigest() == load["json_sha256"]


def test_golden_texts_that_are_cut_read_as_the_reference_reads_them():
    pairs = folder_pairs(session_folder("c_truncation/after"))
    scenario = json.loads((session_folder("c_truncation") / "scenario.json").read_text())
    checked = 0
    for load in (step for step in scenario["steps"] if step["op"] == "load"):
        pair = pairs[session_file_name(load["session"])]
        if load["session"] == "t:overlong":  # stored bytes that are no UTF-8
            assert codes(pair) == {"not-utf8"}
            continue
        text = dump(history(pair.records))
        if "json" in load:
            assert json.loads(text) == json.loads(load["json"])
        else:
            assert len(text.encode()) == load["json_bytes"]
        checked += 1
    assert checked >= 13


def _damaged(name: str):
    folder = _DAMAGE / name / "damaged"
    found = {path.name: path.read_bytes() for path in folder.glob("*")} if folder.is_dir() else {}
    data = next((raw for file, raw in found.items() if file.endswith(".log")), None)
    idx = next((raw for file, raw in found.items() if file.endswith(".idx")), None)
    return data, idx


_EXPECTED = {  # case -> (code of the fault, byte it is found at)
    "missing_idx": ("idx-missing", None),
    "missing_data": ("data-missing", None),
    "idx_truncated_mid_entry": ("idx-entry-torn", 58),
    "idx_truncated_in_header": ("idx-header-torn", 0),
    "idx_empty_file": ("idx-empty", 0),
    "bad_magic": ("idx-magic", 0),
    "big_endian_magic": ("idx-magic", 0),
    "bad_version_2": ("idx-version", 4),
    "bad_entry_size_12": ("idx-entry-size", 6),
    "record_type_0": ("entry-type", 26),
    "record_type_5": ("entry-type", 26),
    "backend_format_4": ("entry-format", 27),
    "data_truncated_mid_record": ("torn-tail", 299),
    "data_truncated_at_record_boundary": ("entry-beyond-data", 58),
    "data_truncated_last_newline": ("line-end-missing", 337),
    "unindexed_tail_partial": ("torn-tail", 338),
    "entries_swapped": ("entry-order", 18),
    "entry_length_0": ("entry-empty", 28),
    "entry_length_1": ("entry-no-line-end", 28),
    "entry_offset_past_end": ("entry-beyond-data", 28),
    "entry_overlaps_next": ("entry-no-line-end", 28),
    "newline_overwritten": ("line-end-overwritten", 8),
    "invalid_json_same_length": ("not-json", 297),
    "json_trailing_garbage": ("not-json", 295),
    "nul_inside_record": ("nul-byte", 292),
    "legacy_jsonl_no_idx": ("idx-missing", None),
}


@pytest.mark.parametrize("row", _TABLE, ids=lambda row: row["case"])
def test_every_damage_is_named_and_no_line_is_lost(row):
    name = row["case"]
    data, idx = _damaged(name)
    pair = pair_of(data, idx)
    lines = [line for line in (data or b"").split(b"\n")[:-1] if line]
    assert len(pair.records) >= len(lines)
    if name in _EXPECTED:
        assert _EXPECTED[name] in {(f.code, f.offset) for f in pair.findings if f.is_fault}
    else:
        assert not codes(pair)
    whole = history(pair_of(*_pair_base()).records)
    if row["load_rc"] == "ESP_OK" and not row["history_lost_on_load"]:
        reference = json.loads(row["load_json"])
        told = history(pair.records, Backend.OPENAI)
        if name == "entries_swapped":  # the reference follows the idx, we follow the data
            reference = whole
        # What the reference shows is all there; a line it does not see may follow.
        assert told[: len(reference)] == reference


def _pair_base() -> tuple[bytes, bytes]:
    folder = _DAMAGE / "_base" / "pair"
    (data,) = folder.glob("*.log")
    return data.read_bytes(), data.with_name(data.name + ".idx").read_bytes()


def test_where_the_reference_loses_all_the_witness_keeps_all():
    base = history(pair_of(*_pair_base()).records)
    kept = [
        "missing_idx",
        "idx_empty_file",
        "idx_truncated_mid_entry",
        "bad_magic",
        "record_type_5",
        "backend_format_4",
        "entry_length_0",
        "entry_overlaps_next",
        "newline_overwritten",
    ]
    for name in kept:
        assert history(pair_of(*_damaged(name)).records) == base, name


@pytest.mark.parametrize("one", case("B09"), ids=lambda one: one["name"])
def test_b09_a_cut_between_the_two_files(one):
    data, idx = b64(one["input"]["data_b64"]), b64(one["input"]["idx_b64"])
    pair = pair_of(data, idx)
    told = " / ".join(finding.message for finding in pair.findings)
    wanted = one["expected"]
    assert len(pair.records) >= wanted["recoverable_records_at_least"]
    report = {
        "idx_version_2": "unknown version 2",
        "both_empty": "",
    }.get(one["name"], wanted["host_report"])
    assert report in told
    assert pair.read_only is wanted.get("read_only", False)
    if one["name"] == "both_empty":
        assert not pair.findings


def test_b05_an_old_file_with_bad_bytes_is_read_and_reported():
    one = next(c for c in case("B05") if "data_b64" in c["input"])
    pair = pair_of(b64(one["input"]["data_b64"]), b64(one["input"]["idx_b64"]))
    texts = [message.text for record in pair.records for message in messages_of(record)]
    assert texts[:2] + texts[3:] == ["a", "b", "c"]
    assert texts[2].startswith("x") and texts[2].endswith("y") and "\ufffd" in texts[2]
    (finding,) = [f for f in pair.findings if f.is_fault]
    assert (finding.record, finding.code) == (2, "not-utf8")
    data = b64(one["input"]["data_b64"]) or b""
    assert finding.offset is not None and data[finding.offset] == 0xFF


def test_b06_surrogate_halves_in_a_file_are_joined_or_marked():
    one = next(c for c in case("B06") if "data_b64" in c["input"])
    pair = pair_of(b64(one["input"]["data_b64"]), b64(one["input"]["idx_b64"]))
    assert messages_of(pair.records[1])[0].text == "😀 ok"
    assert codes(pair) == {"surrogate-bytes"}
    lone = pair_of(*write_pair([(1, 1, b'{"role":"user","content":"a\xed\xa0\xbdb \\ud83d c"}')]))
    assert messages_of(lone.records[0])[0].text == "a\ufffdb \ufffd c"
    escaped = pair_of(*write_pair([(1, 1, b'{"role":"user","content":"\\ud83d\\ude00"}')]))
    assert messages_of(escaped.records[0])[0].text == "😀"


_USER = b'{"role":"user","content":"one"}'
_FINAL = b'{"role":"assistant","content":"eins"}'


def test_a_question_without_answer_is_read_from_its_own_file():
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    waiting = b"%d\n%s\n" % (len(data), _USER)
    pair = pair_of(data, idx, live=True, open=waiting)
    assert [r.origin for r in pair.records] == [Origin.INDEX, Origin.INDEX, Origin.OPEN]
    assert pair.pending and not codes(pair)
    assert pair.records[2].rtype is RecordType.USER
    assert not turns(pair.records)[-1].completed


def test_an_answered_question_is_not_shown_twice():
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    pair = pair_of(data, idx, live=True, open=b"0\n%s\n" % _USER)
    assert len(pair.records) == 2 and not pair.pending and not codes(pair)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "open-torn"),
        (b"70", "open-torn"),
        (b"70\n" + _USER, "open-torn"),
        (b"x\n" + _USER + b"\n", "open-torn"),
        (b"5\n" + _USER + b"\n", "open-differs"),
        (b"999\n" + _USER + b"\n", "open-offset"),
    ],
)
def test_a_damaged_question_file_is_named(raw, code):
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    assert codes(pair_of(data, idx, live=True, open=raw)) == {code}


def test_the_first_question_of_a_new_session_needs_no_other_file():
    pair = pair_of(None, None, live=True, open=b"0\n%s\n" % _USER)
    assert pair.pending and len(pair.records) == 1 and not codes(pair)


def test_a_young_session_of_a_board_may_have_no_idx_yet():
    data, _ = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    board, copy = pair_of(data, None, live=True), pair_of(data, None)
    assert not codes(board) and len(board.records) == 2
    assert codes(copy) == {"idx-missing"}


def test_an_idx_that_lags_is_no_fault():
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    pair = pair_of(data, idx[:-10], live=True)
    assert not codes(pair) and pair.unindexed == 1
    assert [f.code for f in pair.findings] == ["unindexed-tail"]
    assert all(f.severity is Severity.INFO for f in pair.findings)


def test_half_done_compactions_are_read_from_the_files_that_count():
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    longer, longer_idx = write_pair([(1, 1, _USER), (2, 1, _FINAL), (2, 1, _FINAL)])
    before = pair_of(longer, longer_idx, live=True, data_new=data, idx_new=idx)
    assert len(before.records) == 3 and not codes(before)
    after = pair_of(data, longer_idx, live=True, idx_new=idx)
    assert len(after.records) == 2 and not codes(after)
    removed = pair_of(None, longer_idx, live=True, data_new=data, idx_new=idx)
    assert len(removed.records) == 2 and codes(removed) == {"new-only"}


def test_a_record_with_line_feeds_inside_is_one_record_if_the_idx_says_so():
    pretty = b'{\n "role": "user",\n "content": "x"\n}'
    data, idx = write_pair([(1, 1, pretty), (2, 1, _FINAL)])
    pair = pair_of(data, idx)
    assert [r.raw for r in pair.records] == [pretty, _FINAL] and not codes(pair)


def test_a_record_behind_the_stump_of_another_is_found_by_its_entry():
    # The reference appends behind a torn tail: the entry begins inside a line.
    data, idx = write_pair([(1, 1, _USER)])
    stump = b'{"role":"us'
    more = data + stump + _FINAL + b"\n"
    at = (len(data) + len(stump)).to_bytes(4, "little")
    idx += at + (len(_FINAL) + 1).to_bytes(4, "little") + bytes((2, 1))
    pair = pair_of(more, idx)
    assert [r.raw for r in pair.records] == [_USER, _FINAL]
    assert [f.raw for f in pair.fragments] == [stump] and codes(pair) == {"fragment"}


def test_an_idx_of_another_moment_does_not_lose_a_line():
    old, _ = write_pair([(1, 1, _USER), (3, 1, _FINAL), (4, 1, b"[]"), (2, 1, _FINAL)])
    _, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL + b" " * 3), (1, 1, _USER)])
    pair = pair_of(old, idx)
    assert [r.raw for r in pair.records] == [_USER, _FINAL, b"[]", _FINAL]
    assert codes(pair)
