"""Whatever happened to the files, no complete line is lost and the user is told once (B09, B55).

The golden folders hold the damaged pairs of the reference's damage table; what the reference made
of most of them is 0 bytes of data.
"""

import json
import os
import struct

from given import shared
from stored import lines, read, record, records, write

from upyclaw.storage import FINAL, USER, SessionStore, session_file_name, user_record
from upyclaw.storage.codec import IDX_HEADER

SID = "dmg"
# Damage that leaves all six records. The first five are nothing to tell: they occur in normal
# use, or are legal in the newest builds of the reference.
LOSSLESS = (
    "missing_idx idx_lost_last_entry idx_empty_file header_only_idx_with_data"
    " backend_format_3_responses idx_truncated_mid_entry idx_truncated_in_header bad_magic"
    " big_endian_magic bad_version_2 bad_entry_size_12 record_type_0 record_type_5"
    " backend_format_4 entry_length_0 entry_length_1 entry_offset_past_end entry_overlaps_next"
    " entries_swapped data_truncated_last_newline newline_overwritten"
).split()
SILENT = 5
# Only the JSON of one record is damaged: seen when it is read, not when the session is opened.
UNSEEN = "invalid_json_same_length json_trailing_garbage nul_inside_record".split()


def check(root, data, idx, label, want=None):
    """Open, append, open again: every complete line is a record, the pair is consistent after."""
    store = SessionStore(root)
    path = root + "/" + session_file_name(SID)
    for name in os.listdir(root):
        os.remove(root + "/" + name)
    write(path, data)
    write(path + ".idx", idx)
    session = store.open(SID)
    notices = session.take_notices()
    got = records(session)
    want = want or lines(data)
    assert got[: len(want)] == want, (label, got)
    session.add_user(user_record("appended after damage"))
    session.begin(FINAL)
    session.write(b'{"role":"assistant","content":"ok"}')
    session.end()
    session.finish()
    store.close(session)
    s = SessionStore(root).open(SID)
    assert s.take_notices() == [], (label, "told twice")
    assert records(s) == got + [
        user_record("appended after damage"),
        b'{"role":"assistant","content":"ok"}',
    ], label
    now = read(path)
    assert lines(now) == records(s), label
    idx = read(path + ".idx")
    assert idx.startswith(IDX_HEADER) and len(idx) == 8 + 10 * s.count, label
    assert not [n for n in os.listdir(root) if n.endswith(".new")], label
    return got, notices


def golden_folder():
    """Where the golden sessions are: all of them if possible, else the small ones kept with us."""
    shared = os.getenv("UPYCLAW_SHARED")
    return (shared or os.getenv("UPYCLAW_TEST_DATA")) + "/golden/sessions/"


def golden(name):
    base = golden_folder() + name + "/" + session_file_name(SID)
    return read(base), read(base + ".idx")


def test_every_case_of_the_damage_table(root):
    with open(golden_folder() + "g_damage/damage_table.json") as f:
        cases = [row["case"] for row in json.load(f)]
    assert len(cases) == 32
    base, _ = golden("g_damage/_base/pair")
    for case in cases:
        data, idx = golden("g_damage/" + case + "/damaged")
        # The one case in which the data has fewer lines than it had records.
        glued = case == "newline_overwritten"
        got, notices = check(root, data, idx, case, lines(base) if glued else None)
        if case in LOSSLESS:
            assert got == lines(base), case
            assert len(notices) == (LOSSLESS.index(case) >= SILENT), (case, notices)
        elif case not in ("both_missing", "header_only_idx_empty_data"):
            quiet = case in UNSEEN or case == "unindexed_tail_full_record"
            assert not notices if quiet else 1 <= len(notices) <= 2, (case, notices)
        if case.startswith("data_truncated"):
            assert "shorter" in notices[0], notices
        if case == "unindexed_tail_full_record":
            assert len(got) == 7


def test_a_damaged_idx_is_set_aside_once(root):
    data = b'{"role":"user","content":"one"}\n{"role":"assistant","content":"eins"}\n'
    bad = b"CHDX\x02\x00\x0a\x00" + b"\0" * 20
    _, notices = check(root, data, bad, "bad version")
    assert len(notices) == 1 and "another version" in notices[0], notices
    path = root + "/" + session_file_name(SID)
    assert read(path + ".idx.bad") == bad
    for _ in range(3):
        store = SessionStore(root)
        store.close(store.open(SID))
    assert len([n for n in os.listdir(root) if n.endswith(".bad")]) == 1


def test_a_torn_tail_is_set_aside_and_never_glued(root):
    whole = b'{"role":"user","content":"one"}\n'
    path = root + "/" + session_file_name(SID)
    for torn in (b"{", b'{"role":"assistant","content":"half an ans', b'{"role":"x' * 70):
        got, notices = check(root, whole + torn, None, torn)
        assert len(got) == 2 and len(notices) == 1
        assert json.loads(got[1]) == {"role": "assistant", "content": "[cut off]"}
        assert read(path + ".bad") == torn


def test_b09(root):
    records = [
        b'{"role":"user","content":"one"}',
        b'{"role":"assistant","content":"eins"}',
        b'{"role":"user","content":"two"}',
        b'{"role":"assistant","content":"zwei"}',
        b'{"role":"user","content":"three"}',
    ]
    data = b"\n".join(records) + b"\n"
    store = SessionStore(root)
    path = root + "/" + session_file_name(SID)
    write(path, data)
    session = store.open(SID)
    store.close(session)
    idx = read(path + ".idx")
    assert len(idx) == 58
    for cut in (48, 53, 4, 0, None, 8, 18):
        got, _ = check(root, data, None if cut is None else idx[:cut], "B09 %s" % cut)
        assert got == records


def test_overwritten_line_ends_come_back_only_where_a_record_ends(root):
    one = b'{"role":"user","content":"one"}'
    two = b'[{"role":"tool","tool_call_id":"a"},{"role":"tool","tool_call_id":"b"}]'
    three = b'{"role":"assistant","content":"three"}'
    data = one + b"\n" + two + b"\n" + three + b"\n"
    path = root + "/" + session_file_name(SID)
    write(path, data)
    store = SessionStore(root)
    store.close(store.open(SID))
    idx = read(path + ".idx")
    # Any byte in the place of the LF, of two records and of the last one.
    for byte in (b" ", b",", b"}", b"\0", b"\xff"):
        for both in (False, True):
            bad = one + byte + two + (byte if both else b"\n") + three + (byte if both else b"\n")
            got, notices = check(root, bad, idx, byte, [one, two, three])
            assert got == [one, two, three]
            assert len(notices) == 1 and "line end" in notices[0], notices
            assert read(path).startswith(data) and read(path + ".idx.bad") is None
    # A foreign idx whose entry ends between two objects of one record changes nothing.
    cut = len(one) + 1 + two.find(b",{") + 1
    other = idx[:18] + struct.pack("<IIBB", len(one) + 1, cut - len(one) - 1, 4, 1)
    got, _ = check(root, data, other, "foreign")
    assert got == [one, two, three]


def test_lines_that_are_not_json_stay_and_are_told(root):
    data = b'{"role":"user","content":"a"}\n\xff\xfe\0junk\n{"role":"assistant","content":"b"}\n\n'
    got, notices = check(root, data, None, "junk")
    assert got == lines(data) and len(got) == 4
    assert len(notices) == 1 and "2 lines" in notices[0]


def test_an_idx_of_another_moment_is_made_again(root):
    data = b"".join(user_record("text %d" % (i * i)) + b"\n" for i in range(60))
    other = b"".join(user_record("other %d" % i) + b"\n" for i in range(60))
    path = root + "/" + session_file_name(SID)
    store = SessionStore(root)
    write(path, other)
    store.close(store.open(SID))
    idx = read(path + ".idx")
    assert len(idx) == 608
    got, notices = check(root, data + other, idx, "foreign idx")
    assert len(got) == 120 and len(notices) == 1


def test_records_with_line_ends_are_kept_by_a_good_idx(root):
    pretty = b'{\n  "role":"user",\n  "content":"a"\n}'
    last = b'{"role":"assistant","content":"b"}'
    data = pretty + b"\n" + last + b"\n"
    idx = IDX_HEADER + struct.pack("<IIBB", 0, len(pretty) + 1, 1, 1)
    write(root + "/" + session_file_name(SID), data)
    write(root + "/" + session_file_name(SID) + ".idx", idx)
    session = SessionStore(root).open(SID)
    assert records(session) == [pretty, last]


def test_reference_crash_windows(root):
    table = shared("golden/sessions/g2_crash_windows/crash_table.json")
    if table is None:
        return
    d3 = "golden/sessions/d3_compaction_shapes/"
    name = "s_shape_9dc3d926.log"
    old = shared(d3 + "before/" + name)
    old_idx = shared(d3 + "before/" + name + ".idx")
    new = shared(d3 + "after/" + name)
    new_idx = shared(d3 + "after/" + name + ".idx")
    # `before` lacks the final record of the compacting call.
    final = lines(new)[-1] + b"\n"
    old_idx += struct.pack("<IIBB", len(old), len(final), FINAL, 1)
    old += final
    assert len(old) == 165152 and len(old_idx) == 168
    assert len(new) == 74774 and len(new_idx) == 128
    states = {
        "append_data_flushed_idx_not": (old, old_idx[:-10]),
        "append_idx_torn_4_bytes": (old, old_idx[:-6]),
        "append_data_torn": (old[:125118], old_idx),
        "compact_data_rewritten_nothing_else": (new + old[len(new) :], old_idx),
        "compact_both_rewritten_not_truncated": (
            new + old[len(new) :],
            new_idx + old_idx[len(new_idx) :],
        ),
        "compact_data_truncated_idx_not": (new, old_idx),
        "compact_half_data": (new[: len(new) // 2] + old[len(new) // 2 :], old_idx),
        "recreate_data_truncated_idx_not": (b"", old_idx),
    }
    path = root + "/" + session_file_name(SID)
    for row in json.loads(table):
        data, idx = states[row["case"]]
        write(path, data)
        write(path + ".idx", idx)
        store = SessionStore(root)
        session = store.open(SID)
        want = lines(data)
        assert session.count >= len(want), row["case"]
        seen = row["records_seen"]
        assert seen is None or session.count >= seen, row["case"]
        for i in range(len(want)):
            assert session.entry(i)[1] == len(want[i]), (row["case"], i)
        store.close(session)
        for left in os.listdir(root):
            os.remove(root + "/" + left)


def test_the_pending_question_survives_a_shorter_data_file(root):
    store = SessionStore(root)
    session = store.open(SID)
    for text in ("one", "two"):
        session.add_user(user_record(text))
        session.finish()
    session.add_user(user_record("three"))
    data = read(session.path)
    write(session.path, data[:20])
    s = SessionStore(root).open(SID)
    assert record(s, s.count - 1) == user_record("three")
    assert s.entry(s.count - 1)[2] == USER
    # It is in the file now and does not come a second time when that is shortened by a good tool.
    s.close()
    kept = read(s.path)
    write(s.path + ".open", b"99999\n" + user_record("three") + b"\n")
    s = SessionStore(root).open(SID)
    assert read(s.path) == kept and s.count == len(lines(kept))
