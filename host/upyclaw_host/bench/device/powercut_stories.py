"""The stories of powercut.py: what is done to a store, the model told before and after each step.

Each function is one story: what comes before `record()` is set-up, what follows is cut.
"""

import json

import vfs
from dice import Dice
from powercut_model import ROOT, State, mount, read, tidied, trimmed

from upyclaw.storage import FINAL, RESULT, TOOL, USER, SessionStore, session_file_name, user_record
from upyclaw.storage.chatmap import ChatMap

CHAT = "chat:serial:local"
A = CHAT + ":default_01"
B = CHAT + ":default_02"


class Story:
    """A store and what the model says of it. `told`: the user is to hear of damage."""

    def __init__(self, flash, seed, limit):
        self.flash = flash
        self.limit = limit
        self.random = Dice(seed).below
        self.start = seed  # of the count that decides where the second cuts are
        self.told = False
        self.now = {}  # session id -> State, as acknowledged
        self.marks = []  # (operations so far, {session id: [State, ...]}, {chat maps})
        self.maps = [None]
        flash.ops = None
        vfs.VfsLfs2.mkfs(flash, progsize=flash.prog)
        mount(flash)
        self.store = SessionStore(ROOT, limit=limit, reserve=2)

    def text(self, n):
        n = 1 + self.random(n)
        return ("word%d 你好 " % n * (n // 12 + 1))[:n]

    def record(self):
        """From here on operations count."""
        self.image = bytes(self.flash.image)
        self.flash.ops = []
        self.mark({})

    def mark(self, flight, maps=None):
        states = {}
        for sid in self.now:
            states[sid] = [self.now[sid]]
        for sid in flight:
            states.setdefault(sid, [])
            states[sid] = states[sid] + flight[sid]
        if self.flash.ops is not None:
            self.marks.append((len(self.flash.ops), states, maps or self.maps))

    def flight(self, sid, *states):
        self.now.setdefault(sid, State())
        self.mark({sid: list(states)})

    def ack(self, sid, state):
        self.now[sid] = state
        self.mark({})

    def state(self, sid):
        return self.now.get(sid) or State()

    # actions

    def user(self, sid, text):
        session = self.store.open(sid)
        record = user_record(text)
        state = self.state(sid).plus((USER, record))
        self.flight(sid, state)
        session.add_user(record)
        self.ack(sid, state)

    def round(self, sid, k, size):
        session = self.store.open(sid)
        call = (
            b'{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function",'
            b'"function":{"name":"f","arguments":"{}"}}]}'
        ) % k
        content = json.dumps(self.text(size)).encode()
        result = b'[{"role":"tool","tool_call_id":"c%d","content":%s,"is_error":false}]' % (
            k,
            content,
        )
        state = self.state(sid).plus((TOOL, call), (RESULT, result))
        self.flight(sid, state)
        for rtype, data in ((TOOL, call), (RESULT, result)):
            session.begin(rtype)
            for i in range(0, len(data), 50):
                session.write(data[i : i + 50])
            session.end()
        session.sync()
        self.ack(sid, state)

    def finish(self, sid, text=None):
        session = self.store.open(sid)
        state = self.state(sid)
        if text is not None:
            data = json.dumps({"content": text}).encode()
            data = b'{"role":"assistant",' + data[1:].replace(b'"content": ', b'"content":')
            state = state.plus((FINAL, data))
        after = tidied(state, self.limit)
        self.flight(sid, state, after)
        if text is not None:
            session.begin(FINAL)
            for i in range(0, len(data), 40):
                session.write(data[i : i + 40])
            session.end()
        session.finish()
        session.take_notices()
        self.ack(sid, after)

    def turn(self, sid, rounds=0, user=300, answer=500, result=400):
        self.user(sid, self.text(user))
        for k in range(rounds):
            self.round(sid, k, result)
        self.finish(sid, self.text(answer))

    def trim(self, sid):
        session = self.store.open(sid)
        after = trimmed(self.state(sid), self.limit)
        self.flight(sid, after)
        session.trim()
        session.take_notices()
        self.ack(sid, after)

    def delete(self, sid):
        self.flight(sid, State())
        self.store.delete(sid)
        self.ack(sid, State())

    def close(self, sid):
        self.store.close(self.store.open(sid))
        self.mark({})

    def chat(self, action, alias=""):
        chats = ChatMap(self.store, CHAT)
        before = self.maps
        # The first look makes a map of one session.
        self.mark({}, before + [{"default_01": True}])
        chats.current()
        now = [dict(chats.list())]
        self.maps = now
        aliases = now[0]
        after = {}
        for name in aliases:
            after[name] = False if action != "delete" else aliases[name]
        if action == "delete":
            after.pop(alias)
            self.flight(CHAT + ":" + alias, State())
        else:
            after[alias] = True
        self.mark(
            {CHAT + ":" + alias: [State()]} if action == "delete" else {}, before + now + [after]
        )
        done, sentence = getattr(chats, action)(alias)
        if not done:
            raise ValueError(sentence)
        if action == "delete":
            self.now[CHAT + ":" + alias] = State()
        self.maps = [after]
        self.mark({})


def plain(s):
    s.turn(A)
    s.record()
    for _ in range(6):
        s.turn(A)


def many_plain(s):
    # Long enough for the idx to be written and for LittleFS to compact its metadata.
    for _ in range(10):
        s.turn(A)
    s.record()
    for _ in range(14):
        s.turn(A, 0, 120, 300)


def tools(s):
    s.turn(A)
    s.record()
    s.turn(A, 3)
    s.turn(A, 1)


def first(s):
    s.record()
    s.turn(A)
    s.turn(B, 1)


def unanswered(s):
    s.turn(A)
    s.record()
    s.user(A, s.text(600))
    s.finish(A)
    s.turn(A)


def full(s):
    # Much text is kept: compaction writes some 100 KB.
    while s.state(A).size() < s.limit - 3000:
        s.turn(A, 1, 1500, 2500, 1500)
    s.record()
    for _ in range(2):
        s.turn(A, 1, 1500, 2500, 1500)


def compaction(s):
    while s.state(A).size() < s.limit * 3 // 4:
        s.turn(A, 2, 100, 100, 900)
    s.record()
    for _ in range(4):
        s.turn(A, 2, 100, 100, 900)


def thinning(s):
    s.turn(A)
    s.record()
    s.user(A, "do much")
    k = 0
    while s.state(A).size() < s.limit + 2000:
        s.round(A, k, 1500)
        k += 1
    s.finish(A, "done")
    s.turn(A)


def blocking(s):
    while s.state(A).size() < s.limit - 1200:
        s.turn(A, 0, 400, 600)
    s.record()
    while not s.state(A).blocked:
        s.turn(A, 0, 400, 600)


def trim(s):
    while not s.state(A).blocked:
        s.turn(A, 0, 400, 600)
    s.record()
    s.trim(A)
    s.turn(A)


def trim_twice(s):
    for _ in range(2):
        while not s.state(A).blocked:
            s.turn(A, 0, 400, 600)
        if s.flash.ops is None and s.state(A).old:
            s.record()
        s.trim(A)


def delete(s):
    for _ in range(4):
        s.turn(A, 1)
        s.turn(B)
    s.close(A)
    s.record()
    s.delete(A)
    s.turn(A)


def delete_blocked(s):
    while not s.state(A).blocked:
        s.turn(A, 0, 400, 600)
    s.turn(B)
    s.record()
    s.delete(A)
    s.turn(B)


def switch(s):
    s.turn(A)
    s.record()
    s.chat("new", "default_02")
    s.turn(B)
    s.close(A)
    s.chat("switch", "default_01")
    s.turn(A)
    s.chat("delete", "default_02")


def damaged_idx(s):
    # The rebuild of an idx is cut at each of its operations.
    for _ in range(6):
        s.turn(A, 2, 60, 60, 60)
    s.close(A)
    path = ROOT + "/" + session_file_name(A) + ".idx"
    data = read(path)
    with open(path, "wb") as f:
        f.write(data[:-13] + b"\xff" * 13)
    s.told = True
    s.record()
    s.store.open(A).take_notices()
    s.mark({})
    s.turn(A)
    s.close(A)


def torn_tail(s):
    for _ in range(3):
        s.turn(A, 0, 60, 60)
    s.close(A)
    with open(ROOT + "/" + session_file_name(A), "ab") as f:
        f.write(b'{"role":"assistant","content":"half')
    mended = s.state(A).plus((FINAL, b'{"role":"assistant","content":"[cut off]"}'))
    s.now[A] = mended
    s.told = True
    s.record()
    s.store.open(A).take_notices()
    s.mark({})
    s.turn(A)


def lost_line_end(s):
    # Its LF was overwritten; writing it again is cut, too.
    for _ in range(3):
        s.turn(A, 0, 60, 60)
    s.close(A)
    path = ROOT + "/" + session_file_name(A)
    at = read(path).find(b"\n")
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(b" ")
    s.told = True
    s.record()
    s.store.open(A).take_notices()
    s.mark({})
    s.turn(A)


def forgetful(s):
    # Checks the harness: an add_user that only says it is durable.
    from upyclaw.storage.session import Session

    s.turn(A)
    s.record()
    honest = Session.add_user
    s.held = []
    Session.add_user = lambda session, record, fmt=1: s.held.append(record)
    s.user(A, "forgotten")
    Session.add_user = honest
    s.store.open(A).add_user(s.held[0])
    s.finish(A, "ok")


# name: (story, blocks of flash, limit of a session, what the stride is multiplied with)
STORIES = {
    "plain turns": (plain, 40, 153600, 1),
    "many plain turns": (many_plain, 40, 153600, 1),
    "tool turns": (tools, 40, 153600, 1),
    "first turn of a session": (first, 32, 153600, 1),
    "unanswered question": (unanswered, 40, 153600, 1),
    "compaction": (compaction, 40, 9000, 1),
    "thinning": (thinning, 40, 9000, 1),
    "blocking": (blocking, 40, 8000, 1),
    "trim": (trim, 40, 8000, 1),
    "trim twice": (trim_twice, 40, 8000, 1),
    "delete": (delete, 40, 153600, 1),
    "delete a blocked session": (delete_blocked, 40, 8000, 1),
    "session switch": (switch, 40, 153600, 1),
    "idx rebuild": (damaged_idx, 40, 153600, 1),
    "torn tail": (torn_tail, 40, 153600, 1),
    "lost line end": (lost_line_end, 40, 153600, 1),
    "forgetful store": (forgetful, 40, 153600, 1),
    "compaction of 150 KB": (full, 112, 153600, 16),
}
