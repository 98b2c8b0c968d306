"""Compaction keeps what SPEC-session §9 keeps, byte for byte; what is still too big finds a way
out."""

import json
import os

from given import shared
from stored import put, read, record, write

from upyclaw.storage import (
    FINAL,
    RESULT,
    TOOL,
    USER,
    SessionBlocked,
    SessionStore,
    session_file_name,
    user_record,
)

SID = "chat:web:big"


def final(n):
    return b'{"role":"assistant","content":"' + b"f" * n + b'"}'


def call(n, more=b""):
    return (
        b'{"role":"assistant","content":null'
        + more
        + b',"tool_calls":[{"id":"c%d","type":"function",'
        b'"function":{"name":"f","arguments":"{}"}}]}'
    ) % n


def result(n, size):
    return b'[{"role":"tool","tool_call_id":"c%d","content":"%s","is_error":false}]' % (
        n,
        b"r" * size,
    )


def tool_turn(session, rounds, size, answer=300, more=b""):
    session.add_user(user_record("please do it"))
    for k in range(rounds):
        put(session, TOOL, call(k, more))
        put(session, RESULT, result(k, size))
        session.sync()
    put(session, FINAL, final(answer))
    session.finish()


def text_turn(session, size=500):
    session.add_user(user_record("u" * (size - 300)))
    put(session, FINAL, final(300))
    session.finish()


def types(session):
    return [session.entry(i)[2] for i in range(session.count)]


def check_messages(session):
    """Every call has its result right behind it, and all is JSON."""
    open_ids = []
    for i in range(session.count):
        rtype = session.entry(i)[2]
        value = json.loads(record(session, i))
        if rtype == TOOL:
            assert open_ids == []
            open_ids = [c["id"] for c in value["tool_calls"]]
        elif rtype == RESULT:
            assert [m["tool_call_id"] for m in value] == open_ids
            open_ids = []
        else:
            assert open_ids == []


def golden_pair(folder, name):
    base = "golden/sessions/" + folder + "/" + name
    data = shared(base)
    return data and (data, shared(base + ".idx"))


def load_pair(root, pair, sid, limit=153600):
    store = SessionStore(root + "/s", limit=limit)
    path = store.root + "/" + session_file_name(sid)
    for end, data in (("", pair[0]), (".idx", pair[1])):
        write(path + end, data)
    return store.open(sid)


def test_the_limit_itself_does_not_compact(root):
    pair = golden_pair("d1_exactly_150KiB/after", "s_chat_web_big_82ad7c7b.log")
    if pair:
        session = load_pair(root, pair, SID)
        assert session.size == 153600
        session.finish()
        session.close()
        assert (read(session.path), read(session.path + ".idx")) == pair
        assert session.take_notices() == []


def test_one_byte_over_compacts_as_the_reference_does(root):
    name = "s_chat_web_big_82ad7c7b.log"
    before = golden_pair("d2_150KiB_plus_1_before/after", name)
    if not before:
        return
    session = load_pair(root, before, SID)
    assert session.size == 153601
    session.finish()
    got = read(session.path), read(session.path + ".idx")
    assert got == golden_pair("d2_150KiB_plus_1_after/after", name)
    assert len(session.take_notices()) == 1


def test_shapes_compact_to_the_bytes_of_the_reference(root):
    name = "s_shape_9dc3d926.log"
    before = golden_pair("d3_compaction_shapes/before", name)
    if not before:
        return
    after = golden_pair("d3_compaction_shapes/after", name)
    session = load_pair(root, before, "shape")
    last = after[0][:-1].split(b"\n")[-1]
    put(session, FINAL, last)
    session.finish()
    assert read(session.path) == after[0]
    assert read(session.path + ".idx") == after[1]
    assert len(session.take_notices()) == 1
    assert sorted(os.listdir(session.store.root)) == [name, name + ".idx"]


def test_old_tool_records_go_and_words_stay(root):
    # B56
    store = SessionStore(root + "/s", limit=40000)
    session = store.open(SID)
    words = []
    for i in range(20):
        session.add_user(user_record("question %d" % i))
        put(session, TOOL, call(i))
        put(session, RESULT, result(i, 3000))
        session.sync()
        put(session, FINAL, b'{"role":"assistant","content":"answer %d"}' % i)
        session.finish()
        words += ["question %d" % i, "answer %d" % i]
    texts = []
    tools = 0
    for i in range(session.count):
        if session.entry(i)[2] in (USER, FINAL):
            texts.append(json.loads(record(session, i))["content"])
        else:
            tools += 1
    assert texts == words
    assert tools >= 2 and session.size <= 40000
    check_messages(session)
    notices = session.take_notices()
    assert notices and "messages" in notices[0]
    s = SessionStore(root + "/s", limit=40000).open(SID)
    assert types(s) == types(session)


def test_the_case_of_b56_to_the_byte(root):
    # cases/B56.json: 20 turns of 100, 900, 6500, 300 bytes are 156,000; 15,400 and 428 stay.
    session = SessionStore(root + "/s").open(SID)
    for i in range(20):
        session.add_user(b'{"role":"user","content":"' + b"u" * 71 + b'"}')
        put(session, TOOL, b'{"role":"assistant","tool_calls":[{"id":"' + b"c" * 854 + b'"}]}')
        put(session, RESULT, b'[{"role":"tool","content":"' + b"r" * 6469 + b'"}]')
        session.sync()
        assert session.take_notices() == []
        put(session, FINAL, b'{"role":"assistant","content":"' + b"a" * 266 + b'"}')
        session.finish()
    assert len(session.take_notices()) == 1 and not session.blocked
    assert types(session) == [USER, FINAL] * 19 + [USER, TOOL, RESULT, FINAL]
    assert [session.entry(i)[1] + 1 for i in range(38, 42)] == [100, 900, 6500, 300]
    session.close()
    assert len(read(session.path)) == 15400 and len(read(session.path + ".idx")) == 428


def test_one_huge_first_turn_is_thinned_not_blocked(root):
    # B03: 40 rounds of 1 KB calls (with reasoning) and 4 KB results in a fresh session.
    session = SessionStore(root + "/s").open(SID)
    more = b',"reasoning_content":"' + b"h" * 850 + b'"'
    tool_turn(session, 40, 4000, 600, more)
    assert not session.blocked and session.size <= 153600
    assert types(session) == [USER] + [TOOL, RESULT] * 40 + [FINAL]
    check_messages(session)
    assert b"reasoning_content" not in record(session, 1)
    first = json.loads(record(session, 2))
    assert "left out" in first[0]["content"] and first[0]["is_error"] is False
    assert json.loads(record(session, 80))[0]["content"] == "r" * 4000
    text_turn(session)
    assert session.count == 84


def test_what_cannot_be_thinned_blocks_and_is_left_alone(root):
    store = SessionStore(root + "/s", limit=20000)
    session = store.open(SID)
    n = 0
    while not session.blocked:
        text_turn(session, 1000)
        n += 1
        assert n < 30
    assert "/session trim" in session.take_notices()[0]
    data, count = read(session.path), session.count
    assert count == 2 * n and len(data) > 20000
    try:
        session.add_user(user_record("more"))
    except SessionBlocked as e:
        assert "/session new" in str(e)
    else:
        assert False
    assert read(session.path) == data
    s = SessionStore(root + "/s", limit=20000).open(SID)
    assert s.blocked and s.count == count
    assert json.loads(record(s, 0))["role"] == "user"
    # Others are not touched, and deleting takes the mark away.
    other = store.open("chat:web:other")
    text_turn(other)
    assert not other.blocked
    assert store.delete(SID)
    assert not store.open(SID).blocked
    assert [x for x in os.listdir(store.root) if "web_big" in x] == []


def test_trim_drops_the_oldest_turns_and_keeps_them_aside(root):
    store = SessionStore(root + "/s", limit=20000)
    session = store.open(SID)
    while not session.blocked:
        text_turn(session, 1000)
    before = read(session.path)
    assert session.trim() > 0
    assert not session.blocked and session.size <= 10000
    after = read(session.path)
    assert before.endswith(after) and json.loads(record(session, 0))["role"] == "user"
    assert read(session.path + ".old") == before[: -len(after)]
    assert "log.old" in "".join(session.take_notices())
    text_turn(session)
    # A second time the older ones stay in front.
    while not session.blocked:
        text_turn(session, 1000)
    session.trim()
    old = read(session.path + ".old")
    assert len(old) <= 20000 and before[: -len(after)][:100] in old
    s = SessionStore(root + "/s", limit=20000).open(SID)
    assert not s.blocked and s.count == session.count
    assert [x for x in os.listdir(store.root) if x.endswith(".new")] == []


def test_trim_of_a_single_huge_turn_still_ends_below_the_limit(root):
    store = SessionStore(root + "/s", limit=20000)
    session = store.open(SID)
    session.add_user(user_record("q"))
    for k in range(30):
        put(session, TOOL, call(k, b',"extra":"' + b"e" * 1000 + b'"'))
        put(session, RESULT, result(k, 10))
    put(session, FINAL, final(100))
    session.finish()
    assert session.blocked
    session.trim()
    assert not session.blocked and types(session) == [USER, FINAL]
    session.add_user(user_record("q"))
    put(session, FINAL, final(25000))
    session.finish()
    assert session.blocked
    session.trim()
    assert not session.blocked and session.size <= 20000
    text_turn(session)


def test_when_full_trim_does_it_by_itself(root):
    store = SessionStore(root + "/s", limit=20000, when_full="trim")
    session = store.open(SID)
    for _ in range(60):
        text_turn(session, 1000)
        assert not session.blocked and session.size <= 20000
    assert [n for n in session.take_notices() if "oldest" in n]
    assert session.count >= 20


def test_an_unfinished_last_turn_keeps_all(root):
    store = SessionStore(root + "/s", limit=9000)
    session = store.open(SID)
    tool_turn(session, 2, 2000)
    session.add_user(user_record("next"))
    put(session, TOOL, call(7, b',"reasoning_content":"stays"'))
    put(session, RESULT, result(7, 4300))
    session.finish(True)
    # The newest completed tool turn and the open one stay, thinned oldest first.
    assert types(session) == [USER, TOOL, RESULT, TOOL, RESULT, FINAL, USER, TOOL, RESULT]
    assert b"stays" in record(session, 7)
    assert session.size <= 9000
    check_messages(session)


def test_a_turn_that_is_not_completed_does_not_compact(root):
    store = SessionStore(root + "/s", limit=4000)
    session = store.open(SID)
    tool_turn(session, 1, 2500)
    session.add_user(user_record("u" * 1200))
    session.finish(False)
    assert session.size > 4000 and session.take_notices() == []


def test_unblocked_when_below_the_limit(root):
    store = SessionStore(root + "/s", limit=4000)
    session = store.open(SID)
    while not session.blocked:
        text_turn(session, 600)
    assert SessionStore(root + "/s", limit=4000).open(SID).blocked
    assert not SessionStore(root + "/s", limit=50000).open(SID).blocked
    assert read(session.path + ".blocked") is None
