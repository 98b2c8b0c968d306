"""The eight states a power cut leaves the reference's pair in (golden g2_crash_windows)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from unit.formats_help import codes, pair_of, shared
from upyclaw.storage import SessionStore, session_file_name
from upyclaw_host.formats.session import SessionPair

_FINAL = b'{"role":"assistant","content":"' + b"p" * 70_000 + b'"}'
# What the witness must call each state; the first one is no fault.
_EXPECTED = {
    "append_data_flushed_idx_not": set(),
    "append_idx_torn_4_bytes": {"idx-entry-torn"},
    "append_data_torn": {"torn-tail", "entry-beyond-data"},
    "compact_data_rewritten_nothing_else": {"entry-no-line-end"},
    "compact_both_rewritten_not_truncated": {"unindexed-gap"},
    "compact_data_truncated_idx_not": {"entry-beyond-data"},
    "compact_half_data": {"entry-no-line-end"},
    "recreate_data_truncated_idx_not": {"entry-beyond-data"},
}


def _states() -> dict[str, tuple[bytes, bytes]]:
    """Each state's data and idx, built from the pair before and after the compaction."""
    folder = shared("golden", "sessions", "d3_compaction_shapes")
    (before,) = (folder / "before").glob("*.log")
    (after,) = (folder / "after").glob("*.log")
    base, base_idx = before.read_bytes(), before.with_name(before.name + ".idx").read_bytes()
    new, new_idx = after.read_bytes(), after.with_name(after.name + ".idx").read_bytes()
    old = base + _FINAL + b"\n"
    entry = len(base).to_bytes(4, "little") + (len(_FINAL) + 1).to_bytes(4, "little")
    old_idx = base_idx + entry + b"\x02\x01"
    assert (len(old), len(old_idx), len(new), len(new_idx)) == (165152, 168, 74774, 128)
    mixed, mixed_idx = new + old[len(new) :], new_idx + old_idx[len(new_idx) :]
    return {
        "append_data_flushed_idx_not": (old, base_idx),
        "append_idx_torn_4_bytes": (old, old_idx[:-6]),
        "append_data_torn": (old[:125118], old_idx),
        "compact_data_rewritten_nothing_else": (mixed, old_idx),
        "compact_both_rewritten_not_truncated": (mixed, mixed_idx),
        "compact_data_truncated_idx_not": (new, old_idx),
        "compact_half_data": (new[:35000] + old[35000:], old_idx),
        "recreate_data_truncated_idx_not": (b"", old_idx),
    }


def _table() -> dict[str, dict]:
    table = shared("golden", "sessions", "g2_crash_windows", "crash_table.json").read_text()
    return {row["case"]: row for row in json.loads(table)}


@pytest.mark.parametrize("name", _EXPECTED)
def test_every_complete_line_is_shown_and_the_state_is_named(name):
    data, idx = _states()[name]
    row = _table()[name]
    assert (len(data), len(idx)) == (row["data_size"], row["idx_size"])
    pair = pair_of(data, idx)
    assert len(pair.records) >= data.count(b"\n")
    assert codes(pair) >= _EXPECTED[name] and bool(codes(pair)) is bool(_EXPECTED[name])
    if row["records_seen"] is not None:
        assert len(pair.records) >= row["records_seen"]


@pytest.mark.parametrize("name", _EXPECTED)
def test_the_board_recovers_what_the_witness_shows(name):
    data, idx = _states()[name]
    shown: SessionPair = pair_of(data, idx)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, session_file_name("shape"))
        path.write_bytes(data)
        path.with_name(path.name + ".idx").write_bytes(idx)
        session = SessionStore(folder, limit=1 << 20).open("shape")
        kept = path.read_bytes()
        assert kept.startswith(data[: data.rfind(b"\n") + 1])
        assert session.count >= data.count(b"\n")
        session.close()
        idx_file = path.with_name(path.name + ".idx")
        after = pair_of(path.read_bytes(), idx_file.read_bytes() if idx_file.exists() else None)
        assert not codes(after) - {"not-json", "no-message"}
        mended = [record.raw for record in after.records]
        assert all(record.raw in mended for record in shown.records if record.ok)
