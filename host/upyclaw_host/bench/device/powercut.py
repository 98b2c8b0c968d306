"""Cuts the power at every flash operation: runs in MicroPython, `micropython powercut.py SEED CUTS NAME...`.

Owns: a flash that records its programs and erases, the stories (turns, compaction, deletion ...), the
model of what must survive them, and the check after each cut. Knows the device's storage from outside
only. Nothing is injected: a story runs undisturbed and is recorded; then for each prefix of the
operations, clean and torn, the image is built, mounted, recovered and checked; what the recovery
itself wrote is recorded, too, and cut at each operation.

Prints one JSON line per story: {"story","operations","cuts","second","violations":[...]}.
"""

import gc
import json
import os
import struct
import sys

import vfs

from upyclaw.storage import (
    FINAL,
    RESULT,
    TOOL,
    USER,
    SessionBlocked,
    SessionStore,
    StorageError,
    session_file_name,
    user_record,
)
from upyclaw.storage.chatmap import ChatMap

BLOCK = 4096
ROOT = "/cut/data/sessions"
CHAT = "chat:serial:local"
A = CHAT + ":default_01"
B = CHAT + ":default_02"


class Flash:
    """Blocks in RAM; `ops` holds (block, offset, data) of each program, data None for an erase."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.image = bytearray(b"\xff" * (blocks * BLOCK))
        self.ops = None

    def readblocks(self, block, buf, offset=0):
        at = block * BLOCK + offset
        buf[:] = memoryview(self.image)[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        at = block * BLOCK + offset
        self.image[at : at + len(buf)] = buf
        if self.ops is not None:
            self.ops.append((block, offset, bytes(buf)))

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return BLOCK
        if op == 6:
            self.apply((arg, 0, None))
            if self.ops is not None:
                self.ops.append((arg, 0, None))
        return 0

    def apply(self, op, torn=False):
        """Do one recorded operation, or the first half of it."""
        block, offset, data = op
        at = block * BLOCK + offset
        if data is None:
            data = ERASED
        n = len(data) // 2 if torn else len(data)
        self.image[at : at + n] = memoryview(data)[:n]


ERASED = b"\xff" * BLOCK


def mount(flash):
    vfs.mount(vfs.VfsLfs2(flash, progsize=64), "/cut")


def umount():
    vfs.umount("/cut")


# ---- the model: what a session holds


class State:
    """One session as it may be found: records [(type, bytes)], blocked, the turns kept aside."""

    def __init__(self, records=(), blocked=False, old=b""):
        self.records = list(records)
        self.blocked = blocked
        self.old = old

    def plus(self, *records):
        return State(self.records + list(records), self.blocked, self.old)

    def data(self):
        return b"".join(r[1] + b"\n" for r in self.records)

    def idx(self):
        at = 0
        out = [b"CHDX\x01\x00\x0a\x00"]
        for rtype, text in self.records:
            out.append(struct.pack("<IIBB", at, len(text) + 1, rtype, 1))
            at += len(text) + 1
        return b"".join(out)

    def size(self):
        return sum(len(r[1]) + 1 for r in self.records)


def turns_of(records):
    """[(start, end)] of the turns: one begins at record 0 and at each USER."""
    starts = [i for i in range(len(records)) if i == 0 or records[i][0] == USER]
    return [(s, e) for s, e in zip(starts, starts[1:] + [len(records)])]


def stand_in(text):
    value = json.loads(text)
    out = []
    for m in value:
        content = json.dumps(m["content"])
        size = len(content.encode())
        mark = '"[result of {:,} bytes left out]"'.format(size - 2)
        if size <= 64:
            mark = content
        out.append(
            '{"role":"tool","tool_call_id":%s,"content":%s,"is_error":false}'
            % (json.dumps(m["tool_call_id"]), mark)
        )
    return ("[" + ",".join(out) + "]").encode()


def tidied(state, limit):
    """The state after a completed turn, worked out from the specification."""
    if state.size() <= limit:
        return state
    records = state.records
    turns = turns_of(records)
    keep = [r[0] in (USER, FINAL) for r in records]
    for start, end in reversed(turns):
        types = [r[0] for r in records[start:end]]
        if FINAL in types and (TOOL in types or RESULT in types):
            keep[start:end] = [True] * (end - start)
            break
    start, end = turns[-1]
    if FINAL not in [r[0] for r in records[start:end]]:
        keep[start:end] = [True] * (end - start)
    kept = State([r for r, k in zip(records, keep) if k])
    for i, (rtype, text) in enumerate(kept.records):
        if kept.size() <= limit:
            break
        if rtype == RESULT:
            kept.records[i] = (RESULT, stand_in(text))
    if kept.size() <= limit:
        kept.old = state.old
        return kept
    return State(records, True, state.old)


def trimmed(state, limit):
    """The state after trim, when whole turns suffice."""
    starts = [s for s, _ in turns_of(state.records)]
    for s in starts:
        rest = State(state.records[s:])
        if rest.size() <= limit // 2 or s == starts[-1]:
            rest.old = state.old + State(state.records[:s]).data()
            return rest


# ---- a story: actions on the store, with the model told before and after each


class Story:
    def __init__(self, flash, seed, limit):
        self.flash = flash
        self.limit = limit
        self.seed = seed
        self.now = {}  # session id -> State, as acknowledged
        self.marks = []  # (operations so far, {session id: [State, ...]}, {chat maps})
        self.maps = [None]
        flash.ops = None
        vfs.VfsLfs2.mkfs(flash, progsize=64)
        mount(flash)
        self.store = SessionStore(ROOT, limit=limit, reserve=2)

    def random(self, n):
        self.seed = (self.seed * 1103515245 + 12345) & 0x7FFFFFFF
        return (self.seed >> 8) % n

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


# ---- the check


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def recover(limit, sids):
    """What a start does: clean up, open. Returns (store, {sid: session})."""
    store = SessionStore(ROOT, limit=limit, reserve=2)
    store.clean()
    sessions = {}
    for sid in sids:
        sessions[sid] = store.open(sid)
    return store, sessions


def find(session, states):
    """The allowed state that the session is in, or None."""
    data = read(session.path)
    for state in states:
        if data == state.data() and session.count == len(state.records):
            if session.blocked == state.blocked:
                return state
    return None


def check(story, states, maps, thorough):
    """Recover the mounted flash and compare; returns a description of what is wrong, or None."""
    store, sessions = recover(story.limit, states)
    rec_ops = story_ops()
    wrong = None
    for sid in states:
        session = sessions[sid]
        state = find(session, states[sid])
        if state is None:
            wrong = "%s: %d records, %d bytes, blocked %s; allowed %s" % (
                sid,
                session.count,
                session.size,
                session.blocked,
                [(len(s.records), s.size(), s.blocked) for s in states[sid]],
            )
            break
        if state.old and read(session.path + ".old") != state.old:
            wrong = sid + ": the turns kept aside differ"
        for i in range(session.count):
            e = session.entry(i)
            if e[2] != state.records[i][0] or e[1] != len(state.records[i][1]):
                wrong = "%s: entry %d is %s" % (sid, i, e)
        if session.take_notices() and not story.told:
            wrong = sid + ": the user is told of damage"
        if thorough and not wrong:
            wrong = append(story, store, session, state)
        if wrong:
            break
    for name in os.listdir(ROOT):
        if name.endswith(".new"):
            wrong = wrong or "left over: " + name
    if maps != [None] and not wrong:
        chats = ChatMap(store, CHAT)
        got = dict(chats.list()) if chats._aliases else None
        if got not in maps or chats.take_notices():
            wrong = "chat map: %s; allowed %s" % (got, maps)
    for session in sessions.values():
        session.release()
    return wrong, rec_ops


def append(story, store, session, state):
    """The next turn works, and the closed pair is what the model says, byte for byte."""
    if state.blocked:
        try:
            session.add_user(user_record("x"))
        except SessionBlocked:
            return None
        return session.sid + ": not refused"
    record = user_record("next")
    answer = b'{"role":"assistant","content":"ok"}'
    session.add_user(record)
    session.begin(FINAL)
    session.write(answer)
    session.end()
    session.finish()
    state = tidied(state.plus((USER, record), (FINAL, answer)), story.limit)
    session.close()
    session.take_notices()
    data = read(session.path)
    if data != state.data():
        return "%s: after the next turn %d records, %d bytes; expected %d, %d" % (
            session.sid,
            session.count,
            len(data),
            len(state.records),
            state.size(),
        )
    if read(session.path + ".idx") != state.idx():
        return session.sid + ": the idx differs from the data"
    if session.count:
        i = session.count - 1
        text = b"".join(bytes(c) for c in session.chunks(i, bytearray(32)))
        if text != state.records[i][1]:
            return session.sid + ": the last record reads back wrong"
    return None


_scratch = None


def story_ops():
    """Operations recorded on the flash under test so far; recording ends."""
    ops = _scratch.ops
    _scratch.ops = None
    return ops


def attempt(story, states, maps, thorough):
    # Everything the check raises is a violation, too.
    mount(_scratch)
    ops = ()
    try:
        wrong, ops = check(story, states, maps, thorough)
    except (
        OSError,
        StorageError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        TypeError,
    ) as e:
        wrong = f"{type(e).__name__}: {e}"
    umount()
    return wrong, ops or ()


def cut(story, most):
    """All cuts of a recorded story, at most `most`; returns (cuts, second cuts, violations)."""
    global _scratch
    ops = story.flash.ops
    story.flash.ops = None
    umount()
    base = Flash(story.flash.blocks)
    base.image[:] = story.image
    _scratch = Flash(story.flash.blocks)
    cuts = second = mark = 0
    violations = []
    # Tears the last one off, too, and ends with everything done.
    for k in range(len(ops) + 1):
        while mark + 1 < len(story.marks) and story.marks[mark + 1][0] <= k:
            mark += 1
        _, states, maps = story.marks[mark]
        for torn in (False, True):
            if (torn and k == len(ops)) or cuts + second >= most:
                continue
            _scratch.image[:] = base.image
            if torn:
                _scratch.apply(ops[k], True)
            _scratch.ops = []
            wrong, more = attempt(story, states, maps, True)
            cuts += 1
            if wrong:
                violations.append("cut %d%s: %s" % (k, " torn" if torn else "", wrong))
            for j in range(len(more)):
                for torn2 in (False, True):
                    if cuts + second >= most:
                        break
                    _scratch.image[:] = base.image
                    if torn:
                        _scratch.apply(ops[k], True)
                    for op in more[:j]:
                        _scratch.apply(op)
                    if torn2:
                        _scratch.apply(more[j], True)
                    wrong, _ = attempt(story, states, maps, False)
                    second += 1
                    if wrong:
                        violations.append(
                            "cut %d%s then %d%s: %s"
                            % (k, " torn" if torn else "", j, " torn" if torn2 else "", wrong)
                        )
        if k < len(ops):
            base.apply(ops[k])
    return cuts, second, violations


# ---- the stories


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


STORIES = {
    "plain turns": (plain, 40, 153600),
    "many plain turns": (many_plain, 40, 153600),
    "tool turns": (tools, 40, 153600),
    "first turn of a session": (first, 32, 153600),
    "unanswered question": (unanswered, 40, 153600),
    "compaction": (compaction, 40, 9000),
    "thinning": (thinning, 40, 9000),
    "blocking": (blocking, 40, 8000),
    "trim": (trim, 40, 8000),
    "trim twice": (trim_twice, 40, 8000),
    "delete": (delete, 40, 153600),
    "delete a blocked session": (delete_blocked, 40, 8000),
    "session switch": (switch, 40, 153600),
    "idx rebuild": (damaged_idx, 40, 153600),
    "torn tail": (torn_tail, 40, 153600),
    "compaction of 150 KB": (compaction, 112, 153600),
}


def main(seed, most, names):
    for name in names:
        tell, blocks, limit = STORIES[name]
        flash = Flash(blocks)
        story = Story(flash, seed, limit)
        story.told = False
        tell(story)
        if flash.ops is None:
            raise ValueError("nothing was recorded")
        operations = len(flash.ops)
        for sid in story.now:
            story.store.open(sid).release()
        cuts, second, violations = cut(story, most)
        print(
            json.dumps(
                {
                    "story": name,
                    "operations": operations,
                    "cuts": cuts,
                    "second": second,
                    "violations": violations[:20],
                    "violation_count": len(violations),
                }
            )
        )
        flash = story = None
        gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(STORIES))
