"""A turn on flash: durable when promised, readable as written, whole after a restart."""

import json
import os

from stored import put, record

from upyclaw.storage import FINAL, RESULT, TOOL, USER, SessionStore, StorageError, user_record

SID = "chat:serial:local:default_01"


def turn(session, text, answer):
    session.add_user(user_record(text))
    put(session, FINAL, b'{"role":"assistant","content":"' + answer + b'"}')
    session.finish()


def files_of(store):
    return sorted(os.listdir(store.root))


def again(store, sid=SID):
    """What a restart sees: another store that knows nothing but the flash."""
    return SessionStore(store.root).open(sid)


def test_folders_are_made_and_opening_writes_nothing(root):
    store = SessionStore(root + "/data/sessions")
    session = store.open(SID)
    assert session.count == 0 and session.size == 0 and not session.blocked
    assert files_of(store) == []
    assert session.take_notices() == [] and store.take_notices() == []


def test_a_turn_reads_back(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    turn(session, "hello", b"hi")
    for s in (session, again(store)):
        assert s.count == 2
        assert s.entry(0) == (0, 33, USER, 1)
        assert s.entry(1) == (34, 35, FINAL, 1)
        assert record(s, 0) == user_record("hello")
        assert record(s, 1, 5) == b'{"role":"assistant","content":"hi"}'
        assert s.take_notices() == []
    assert session.size == 34 + 36


def test_the_user_is_durable_before_anything_else(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    turn(session, "one", b"eins")
    session.add_user(user_record("the gate code changed"))
    assert session.count == 3
    assert record(session, 2) == user_record("the gate code changed")
    s = again(store)
    assert s.count == 3 and s.entry(2)[2] == USER
    assert record(s, 2) == user_record("the gate code changed")
    # ... and what was recovered is not doubled by the next start or the next turn.
    s = again(store)
    assert s.count == 3
    turn(s, "next", b"ok")
    assert [again(store).entry(i)[2] for i in range(5)] == [USER, FINAL, USER, USER, FINAL]


def test_the_first_turn_of_a_session_can_be_its_last(root):
    store = SessionStore(root + "/s")
    store.open(SID).add_user(user_record("x" * 900))
    s = again(store)
    assert s.count == 1 and record(s, 0) == user_record("x" * 900)


def test_a_turn_without_an_answer_keeps_the_question(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    session.add_user(user_record("lost?"))
    session.finish()
    with open(session.path, "rb") as f:
        assert f.read() == user_record("lost?") + b"\n"
    assert again(store).count == 1


def test_tool_rounds_are_readable_after_sync(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    session.add_user(user_record("lamp on"))
    call = b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function"}]}'
    result = b'[{"role":"tool","tool_call_id":"c1","content":"ok","is_error":false}]'
    put(session, TOOL, call)
    put(session, RESULT, result)
    try:
        record(session, 1)
    except StorageError:
        pass
    else:
        assert False, "read before it was written"
    session.sync()
    assert session.count == 3
    assert [session.entry(i)[2] for i in range(3)] == [USER, TOOL, RESULT]
    assert record(session, 1) == call and record(session, 2) == result
    s = again(store)
    assert s.count == 3 and record(s, 2) == result
    put(session, FINAL, b'{"role":"assistant","content":"done"}')
    session.finish()
    assert [session.entry(i)[2] for i in range(4)] == [USER, TOOL, RESULT, FINAL]
    assert again(store).count == 4


def test_what_is_finished_is_readable_though_the_turn_was_read_before(root):
    # The reader's handle shows the file as it was when it was opened.
    store = SessionStore(root + "/s")
    session = store.open(SID)
    for i in range(3):
        session.add_user(user_record("q%d" % i))
        assert record(session, 4 * i) == user_record("q%d" % i)
        put(session, TOOL, b'{"role":"assistant","tool_calls":[{"id":"c"}]}')
        put(session, RESULT, b'[{"role":"tool","tool_call_id":"c","content":"ok"}]')
        session.sync()
        assert len(record(session, 4 * i + 2)) > 10
        put(session, FINAL, b'{"role":"assistant","content":"a%d"}' % i)
        session.finish()
        assert record(session, 4 * i + 3) == b'{"role":"assistant","content":"a%d"}' % i


def test_the_type_may_be_known_at_the_end_only(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    session.add_user(user_record("q"))
    session.begin(FINAL)
    session.write(b'{"role":"assistant","content":"let me","tool_calls":[{"id":"x"}]}')
    session.end(TOOL)
    session.finish(False)
    assert session.entry(1)[2] == TOOL and again(store).entry(1)[2] == TOOL


def test_line_ends_in_a_record_become_blanks(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    session.add_user(b'{"role":"user",\n"content":"a"}')
    session.begin(FINAL)
    session.write(memoryview(b'{\n"role":"assistant","content":"b"\n}'))
    session.end()
    session.finish()
    s = again(store)
    assert s.count == 2 and json.loads(record(s, 1))["content"] == "b"


def test_a_record_that_breaks_off_leaves_a_whole_line(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    session.add_user(user_record("q"))
    session.begin(FINAL)
    session.write(b'{"role":"assistant","content":"' + b"z" * 700)
    session.finish()
    for s in (session, again(store)):
        assert s.count == 2
        assert json.loads(record(s, 1)) == {"role": "assistant", "content": "[cut off]"}


def test_a_dropped_record_is_written_over_by_the_next(root):
    store = SessionStore(root + "/s")
    for lost in (b'{"role"', b'{"role":"assistant","content":"' + b"y" * 3000):
        session = store.open(SID)
        before = session.count
        session.add_user(user_record("q"))
        session.begin(TOOL)
        session.write(lost)
        session.drop()
        put(session, FINAL, b'{"role":"assistant","content":"short note"}')
        session.finish()
        for s in (session, again(store)):
            assert s.count == before + 2
            assert json.loads(record(s, before + 1))["content"] == "short note"


def test_a_second_user_text_within_a_turn(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    session.add_user(user_record("one"))
    session.add_user(user_record("two"))
    assert again(store).count == 2
    put(session, FINAL, b'{"role":"assistant","content":"both"}')
    session.finish()
    s = again(store)
    assert [s.entry(i)[2] for i in range(3)] == [USER, USER, FINAL]


def test_the_idx_lags_a_little_and_is_complete_after_close(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    sizes = []
    for i in range(40):
        turn(session, "question %d" % i, b"answer")
        st = os.stat(session.path + ".idx")[6] if session.name + ".idx" in files_of(store) else 8
        sizes.append(2 * i + 2 - (st - 8) // 10)
    assert max(sizes) <= 32 and min(sizes) == 0
    store.close(session)
    assert os.stat(session.path + ".idx")[6] == 8 + 80 * 10
    with open(session.path + ".idx", "rb") as f:
        whole = f.read()
    # Derived from the data alone it is the same, byte for byte.
    os.remove(session.path + ".idx")
    s = again(store)
    assert s.count == 80 and s.take_notices() == []
    s.close()
    with open(session.path + ".idx", "rb") as f:
        assert f.read() == whole


def test_many_records(root):
    store = SessionStore(root + "/s", limit=1000000)
    session = store.open(SID)
    for i in range(150):
        turn(session, "q%d" % i, b"a%d" % i)
    s = again(store)
    assert s.count == 300
    for i in (0, 1, 23, 24, 47, 150, 298, 299):
        for t in (s, session):
            text = json.loads(record(t, i))["content"]
            assert text == ("a%d" if i % 2 else "q%d") % (i // 2)


def test_a_file_that_someone_else_changed_is_read_again(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    turn(session, "one", b"eins")
    with open(session.path, "ab") as f:
        f.write(user_record("from outside") + b"\n")
    turn(session, "two", b"zwei")
    assert session.count == 5 and record(session, 2) == user_record("from outside")
    os.remove(session.path)
    turn(session, "three", b"drei")
    # The newest question was still in `.open`: it comes back.
    assert session.count == 3 and again(store).count == 3
    assert record(session, 0) == user_record("two")


def test_the_same_session_is_opened_once(root):
    store = SessionStore(root + "/s")
    assert store.open(SID) is store.open(SID)


def test_two_ids_never_share_a_file(root):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    turn(session, "mine", b"ok")
    with open(store.root + "/sessions.txt", "wb") as f:
        f.write(session.name.encode() + b"\tsomebody else\n")
    for s in (store, SessionStore(store.root)):
        try:
            s.close(session)
            s.open(SID)
        except StorageError as e:
            assert "somebody else" in str(e)
        else:
            assert False
    assert store.delete(SID) is False
    assert os.stat(session.path)[6] > 0


def test_list_and_delete(root):
    store = SessionStore(root + "/s")
    for sid in ("chat:a", 'odd "id"\n\t中文', "chat:b"):
        turn(store.open(sid), "hello", b"hi")
    with open(store.root + "/s_foreign_00000000.log", "wb") as f:
        f.write(b'{"role":"user","content":"x"}\n')
    got = SessionStore(store.root).list()
    assert len(got) == 4 and got[0][1] < got[1][1]
    assert {g[0] for g in got} == {"chat:a", 'odd "id"\n\t中文', "chat:b", None}
    assert all(g[2] > 0 for g in got)
    assert store.delete("chat:b") is True and store.delete("chat:b") is False
    assert {g[0] for g in store.list()} == {"chat:a", 'odd "id"\n\t中文', None}
    assert [n for n in files_of(store) if "chat_b" in n] == []
    s = store.open("chat:b")
    assert s.count == 0
    turn(s, "again", b"ok")
    assert again(store, "chat:b").count == 2


def test_a_session_with_nothing_but_a_waiting_question_is_listed(root):
    store = SessionStore(root + "/s")
    store.open(SID).add_user(user_record("first"))
    store = SessionStore(root + "/s")
    assert [(sid, size) for sid, _, size in store.list()] == [(SID, 0)]
    assert store.open(SID).count == 1
    assert [(sid, size) for sid, _, size in store.list()] == [(SID, 34)]


def test_a_file_where_the_folder_goes_is_set_aside_once(root):
    with open(root + "/data", "wb") as f:
        f.write(b"not a folder")
    store = SessionStore(root + "/data/sessions")
    assert len(store.take_notices()) == 1
    for _ in range(3):
        assert SessionStore(root + "/data/sessions").take_notices() == []
    assert sorted(os.listdir(root)) == ["data", "data.bad"]
