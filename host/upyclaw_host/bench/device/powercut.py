"""Cuts the power at every flash operation: `micropython powercut.py SEED STRIDE NAME...`

Owns: the check after each cut. The stories are in powercut_stories.py, the cuts in
powercut_cut.py, the recording flash and the model in powercut_model.py. Knows the device's storage
from outside only. What the recovery itself wrote is cut, too, at each operation (for every
STRIDE-th of the first cuts).

Prints one JSON line per story: {"story","operations","cuts","second","violations":[...]}.
"""

import gc
import os
import sys

import powercut_cut
from powercut_cut import Cutter
from powercut_model import PROG_SIZES, ROOT, Flash, read, tidied
from powercut_stories import CHAT, STORIES, Story

from upyclaw.storage import FINAL, USER, SessionBlocked, SessionStore, user_record
from upyclaw.storage.chatmap import ChatMap
from upyclaw.storage.files import is_dir


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


def check(story, states, maps, end, thorough=True):
    """Recover the mounted flash and compare; returns a description of what is wrong, or None."""
    store, sessions = recover(story.limit, states)
    end()
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
            wrong = "%s: %d bytes are kept aside; expected %d" % (
                sid,
                len(read(session.path + ".old")),
                len(state.old),
            )
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
    for folder in (ROOT, ROOT + "/chat_map"):
        for name in os.listdir(folder) if is_dir(folder) else ():
            if name.endswith(".new") and not (folder != ROOT and maps[0] is None):
                wrong = wrong or "left over: " + name
    if maps != [None] and not wrong:
        chats = ChatMap(store, CHAT)
        got = dict(chats.list()) if chats.aliases else None
        if got not in maps or chats.take_notices():
            wrong = "chat map: %s; allowed %s" % (got, maps)
    for session in sessions.values():
        session.release()
    return wrong


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


def check_once(story, states, maps, end):
    """The check alone, without the next turn: after a second cut."""
    return check(story, states, maps, end, False)


def main(seed, stride, names):
    SessionStore.lean = False
    for name in names:
        tell, blocks, limit, more = STORIES[name]
        flash = Flash(blocks, PROG_SIZES[(seed - 1) % len(PROG_SIZES)])
        story = Story(flash, seed, limit)
        tell(story)
        if flash.ops is None:
            raise ValueError("nothing was recorded")
        operations = len(flash.ops)
        for sid in story.now:
            story.store.open(sid).release()
        cutter = Cutter(story, check, check_once, torn_again=True)
        powercut_cut.tell(name, operations, *cutter.cut(stride * more))
        flash = story = cutter = None
        gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
