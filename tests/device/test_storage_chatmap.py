"""Sessions of a chat: the reference's names, files and sentences; a damaged map is made again."""

import json
import os

from upyclaw.storage import FINAL, FlashFull, SessionStore, files, user_record
from upyclaw.storage.chatmap import ChatMap, map_file_name, valid_alias

KEY = "chat:telegram:42"


def turn(store, sid):
    session = store.open(sid)
    session.add_user(user_record("hello"))
    session.begin(FINAL)
    session.write(b'{"role":"assistant","content":"hi"}')
    session.end()
    session.finish()


def test_file_names():
    assert map_file_name(KEY) == "chat_chat_telegram_42_a0f9b888.json"
    assert map_file_name("chat:many:1") == "chat_chat_many_1_92b49979.json"
    assert map_file_name("chat:web:browser-1") == "chat_chat_web_browser_1_63a60b57.json"
    assert (
        map_file_name("agent:3:chat:telegram:42") == "chat_agent_3_chat_telegram_42_b4e37700.json"
    )


def test_commands_answer_as_the_reference_does(root):
    store = SessionStore(root)
    chats = ChatMap(store, KEY)
    assert chats.current() == ("default_01", KEY + ":default_01")
    assert chats.new() == (True, "Started a new session: default_02")
    assert chats.new("project-a") == (True, "Started a new session: project-a")
    assert chats.new("project-a") == (
        False,
        'Cannot create session "project-a": a session with that name already exists.',
    )
    assert chats.list() == [("default_01", False), ("default_02", False), ("project-a", True)]
    assert chats.switch("nope") == (
        False,
        'Cannot switch to session "nope": no such session. Send /session list to list sessions.',
    )
    assert chats.delete("project-a")[1] == (
        'Cannot delete the current session "project-a". Switch to another session first.'
    )
    assert chats.switch("default_02") == (True, "Switched to session: default_02")
    turn(store, KEY + ":project-a")
    assert chats.delete("project-a") == (True, "Deleted session: project-a")
    assert chats.delete("project-a")[0] is False
    assert store.list() == []
    with open(root + "/chat_map/" + map_file_name(KEY)) as f:
        text = f.read()
    assert text == (
        '{"chat_key":"chat:telegram:42","current_alias":"default_02",'
        '"sessions":["default_01","default_02"]}'
    )
    again = ChatMap(SessionStore(root), KEY)
    assert again.current()[0] == "default_02" and again.take_notices() == []


def test_new_on_an_unused_chat(root):
    store = SessionStore(root)
    assert ChatMap(store, "chat:web:1").new() == (True, "Started a new session: default_01")
    chats = ChatMap(store, "chat:web:2")
    assert chats.new("work")[0] and chats.list() == [("work", True)]


def test_names_and_numbers_have_limits(root):
    chats = ChatMap(SessionStore(root), KEY)
    for alias in ("a b", "bad/name", "中文", "n" * 33):
        assert not valid_alias(alias)
        assert chats.new(alias)[0] is False
    assert valid_alias("n" * 32)
    for _ in range(32):
        assert chats.new()[0]
    assert chats.current()[0] == "default_32"
    done, sentence = chats.new()
    assert not done and "32" in sentence


def test_a_switch_completes_the_idx_of_the_session_left(root):
    store = SessionStore(root)
    chats = ChatMap(store, KEY)
    _, sid = chats.current()
    turn(store, sid)
    path = store.open(sid).path
    assert not [n for n in os.listdir(root) if n.endswith(".idx")]
    assert chats.new("other")[0]
    assert os.stat(path + ".idx")[6] == 28


def test_a_damaged_map_is_made_again_from_the_sessions(root):
    store = SessionStore(root)
    chats = ChatMap(store, KEY)
    for alias in ("work", "home", "zoo"):
        chats.new(alias)
        turn(store, KEY + ":" + alias)
    chats.switch("home")
    path = root + "/chat_map/" + map_file_name(KEY)
    with open(path, "rb") as f:
        good = f.read()
    for damaged, current in (
        (b"{", "zoo"),
        (b"", "zoo"),
        (good[:70], "home"),
        (good.replace(b"telegram:42", b"telegram:43"), "home"),
        (good.replace(b'"work"', b'"wo/k"'), "home"),
        (good.replace(b'"work"', b'"home"'), "home"),
        (b'{"sessions":7,"current_alias":1,"chat_key":2}', "zoo"),
        (b"\xff\xfe\0", "zoo"),
    ):
        with open(path, "wb") as f:
            f.write(damaged)
        again = ChatMap(SessionStore(root), KEY)
        assert [a for a, _ in again.list()] == ["work", "home", "zoo"], damaged
        assert again.current()[0] == current, damaged
        assert len(again.take_notices()) == 1
        with open(path + ".bad", "rb") as f:
            assert f.read() == damaged
        assert ChatMap(SessionStore(root), KEY).take_notices() == []


def test_a_missing_map_is_made_again_from_foreign_sessions(root):
    # Pulled from a board that runs the reference: no sessions.txt.
    store = SessionStore(root)
    for alias in ("default_01", "default_03"):
        turn(store, KEY + ":" + alias)
    os.remove(root + "/sessions.txt")
    chats = ChatMap(SessionStore(root), KEY)
    assert [a for a, _ in chats.list()] == ["default_01", "default_03"]


def test_maps_of_the_reference_are_read(root):
    folder = os.getenv("UPYCLAW_TEST_DATA") + "/golden/sessions/i_session_commands/after/chat_map/"
    os.mkdir(root + "/chat_map")
    for name in os.listdir(folder):
        with open(folder + name, "rb") as f:
            data = f.read()
        with open(root + "/chat_map/" + name, "wb") as f:
            f.write(data)
        try:
            value = json.loads(data)
        except ValueError:
            continue
        chats = ChatMap(SessionStore(root), value["chat_key"])
        assert [a for a, _ in chats.list()] == value["sessions"]
        assert chats.current()[0] == value["current_alias"]
        assert chats.take_notices() == []


def test_a_first_start_on_a_full_flash(root):
    """The chat has a session to speak of, though its map cannot be written yet."""
    store = SessionStore(root)
    chats = ChatMap(store, KEY)
    write = files.write_file

    def full(path, text):
        raise FlashFull("The flash is full.")

    files.write_file = full
    try:
        assert chats.current() == ("default_01", KEY + ":default_01")
        assert chats.list() == [("default_01", True)]
        assert chats.new("x")[0] is False
    finally:
        files.write_file = write
    assert chats.new("x")[0]
    again = ChatMap(SessionStore(root), KEY)
    assert again.list() == [("default_01", False), ("x", True)]
