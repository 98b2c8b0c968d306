"""Random bytes anywhere in the files of a session never raise, and never take a complete line."""

import os

from dice import Dice
from stored import lines, read, write

from upyclaw.storage import FINAL, SessionStore, session_file_name, user_record
from upyclaw.storage.chatmap import ChatMap

CHAT = "chat:serial:usb"
SID = CHAT + ":default_01"
ROUNDS = 250
TIMEOUT = 180


def damage(dice, data):
    data = bytearray(data)
    for _ in range(1 + dice.below(3)):
        kind = dice.below(5)
        at = dice.below(len(data) + 1)
        if kind == 0:
            data = data[:at]
        elif kind == 1 and data:
            data[at % len(data)] = dice.below(256)
        elif kind == 2:
            data = (
                data[:at] + bytes([dice.below(256) for _ in range(1 + dice.below(12))]) + data[at:]
            )
        elif kind == 3:
            data = data[:at] + data[at + dice.below(40) :]
        else:
            data = data + data[at : at + dice.below(60)]
    return bytes(data)


def turn(session, n):
    session.add_user(user_record("question %d" % n))
    session.begin(FINAL)
    session.write(b'{"role":"assistant","content":"answer %d"}' % n)
    session.end()
    session.finish()


def test_damaged_files_of_a_session(root):
    dice = Dice(7)
    store = SessionStore(root)
    session = store.open(SID)
    for n in range(4):
        turn(session, n)
    session.add_user(user_record("waiting"))
    session.release()
    path = session.path
    ends = ("", ".idx", ".open", ".blocked")
    good = {"": read(path), ".open": read(path + ".open")}
    store = SessionStore(root)
    store.close(store.open(SID))
    good[".idx"] = read(path + ".idx")
    for i in range(ROUNDS):
        for end in ends:
            if end in good:
                write(path + end, good[end])
        if dice.below(3) == 0:
            os.remove(path + ".idx")
        for _ in range(1 + dice.below(2)):
            end = ends[dice.below(4)]
            write(path + end, damage(dice, good.get(end, b"")))
        before = read(path)
        store = SessionStore(root)
        store.clean()
        session = store.open(SID)
        buf = bytearray(64)
        got = [b"".join(bytes(c) for c in session.chunks(k, buf)) for k in range(session.count)]
        # An idx that fits may hold a record with a line end in it.
        assert b"\n".join(got).startswith(b"\n".join(lines(before))), i
        assert session.count >= len(lines(before)) or b"\n" in b"".join(got), i
        turn(session, i)
        store.close(session)
        data = read(path)
        assert data.endswith(b'{"role":"assistant","content":"answer %d"}\n' % i), i
        session = SessionStore(root).open(SID)
        assert session.take_notices() == [], i
        assert session.count == len(got) + 2, i
        session.release()


def test_damaged_lists(root):
    dice = Dice(11)
    store = SessionStore(root)
    chats = ChatMap(store, CHAT)
    for alias in ("work", "home"):
        assert chats.new(alias)[0]
        turn(store.open(chats.current()[1]), 1)
        store.leave(chats.current()[1])
    paths = [root + "/sessions.txt", root + "/chat_map/" + os.listdir(root + "/chat_map")[0]]
    good = [read(path) for path in paths]
    names = [root + "/" + session_file_name(CHAT + ":" + alias) for alias in ("work", "home")]
    data = [read(name) for name in names]
    made = 0
    for i in range(ROUNDS):
        for k in range(2):
            write(paths[k], good[k])
        k = dice.below(2)
        write(paths[k], damage(dice, good[k]))
        store = SessionStore(root)
        store.clean()
        chats = ChatMap(store, CHAT)
        alias, _ = chats.current()
        assert alias in [a for a, _ in chats.list()], i
        assert len(store.list()) == 2, i
        if chats.take_notices():
            # Made again: no session is lost with the map.
            made += 1
            assert [a for a, _ in chats.list()] == ["work", "home"], i
        assert [read(name) for name in names] == data, i
    assert made > 50
