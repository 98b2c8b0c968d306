"""Cuts the power at every flash operation: `micropython powercut.py SEED STRIDE NAME...`

Owns: the cuts and the check after each. The stories are in powercut_stories.py, the recording
flash and the model in powercut_model.py. Knows the device's storage from outside only. Nothing is
injected: a story runs undisturbed and is recorded; then for each prefix of the operations, clean
and torn, the image is built, mounted, recovered and checked; what the recovery itself wrote is
recorded, too, and cut at each operation (for every STRIDE-th of the first cuts).

Prints one JSON line per story: {"story","operations","cuts","second","violations":[...]}.
"""

import gc
import json
import os
import sys

from powercut_model import PROG_SIZES, ROOT, Flash, mount, read, tidied, umount
from powercut_stories import CHAT, STORIES, Story

from upyclaw.storage import FINAL, USER, SessionBlocked, SessionStore, StorageError, user_record
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


def image_at(base, *ops, torn=None):
    """Put `base` with `ops` done and half of `torn` into the flash under test."""
    _scratch.image[:] = base.image
    for op in ops:
        _scratch.apply(op)
    if torn:
        _scratch.apply(torn, True)


def cut(story, stride):
    """All cuts of a recorded story; the recovery from every `stride`-th is cut in its turn.

    Returns (cuts, second cuts, violations).
    """
    global _scratch
    ops = story.flash.ops
    story.flash.ops = None
    umount()
    base = Flash(story.flash.blocks, story.flash.prog)
    base.image[:] = story.image
    _scratch = Flash(story.flash.blocks, story.flash.prog)
    cuts = second = mark = 0
    violations = []
    for k in range(len(ops) + 1):
        while mark + 1 < len(story.marks) and story.marks[mark + 1][0] <= k:
            mark += 1
        _, states, maps = story.marks[mark]
        for torn in (None, ops[k]) if k < len(ops) else (None,):
            label = "cut %d%s" % (k, " torn" if torn else "")
            image_at(base, torn=torn)
            _scratch.ops = []
            wrong, more = attempt(story, states, maps, True)
            cuts += 1
            if wrong:
                violations.append("%s: %s" % (label, wrong))
            if (cuts + story.start) % stride:
                continue
            # The image that the recovery found: base and the torn operation, then its own.
            broken = Flash(0, 0)
            broken.image = bytearray(base.image)
            if torn:
                Flash.apply(broken, torn, True)
            for j in range(len(more)):
                for torn2 in (None, more[j]):
                    image_at(broken, *more[:j], torn=torn2)
                    wrong, _ = attempt(story, states, maps, False)
                    second += 1
                    if wrong:
                        where = "%s then %d%s" % (label, j, " torn" if torn2 else "")
                        violations.append("%s: %s" % (where, wrong))
        if k < len(ops):
            base.apply(ops[k])
    return cuts, second, violations


def main(seed, stride, names):
    SessionStore.lean = False
    for name in names:
        tell, blocks, limit, more = STORIES[name]
        flash = Flash(blocks, PROG_SIZES[(seed - 1) % len(PROG_SIZES)])
        story = Story(flash, seed, limit)
        story.told = False
        tell(story)
        if flash.ops is None:
            raise ValueError("nothing was recorded")
        operations = len(flash.ops)
        for sid in story.now:
            story.store.open(sid).release()
        story.start = seed
        cuts, second, violations = cut(story, stride * more)
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
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
