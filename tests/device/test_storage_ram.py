"""A session of 150 KB and 3,000 records needs at most 8 KB of heap above idle, whatever is done
to it.

Measured under MicroPython in the heap of a classic ESP32: live bytes after a collection, at each
step that the store takes. (The reference peaks at 570 KB to 1.39 MB.) Code that is loaded for the
purpose is loaded before.
"""

import gc
import os
import sys

from upyclaw.storage import FINAL, RESULT, TOOL, SessionStore, user_record

HEAPSIZE = "192k"
TIMEOUT = 120
SID = "chat:serial:local:default_01"
MOST = 8192
MICROPYTHON = sys.implementation.name == "micropython"


class Peak:
    """Counts the most bytes alive above `start()`, looked at whenever the store reads or
    copies."""

    def __init__(self):
        from upyclaw.storage import compact, recover  # noqa: F401

        SessionStore.lean = False
        from upyclaw.storage.index import Index
        from upyclaw.storage.scan import Scan
        from upyclaw.storage.session import Session

        self.base = self.most = self.step = 0
        self.saved = []
        for owner, names in (
            (Index, ("get", "add", "spill", "store")),
            (Scan, ("feed",)),
            (Session, ("copy", "write")),
        ):
            for name in names:
                self.saved.append((owner, name, getattr(owner, name)))
                self.watch(owner, name)

    def watch(self, owner, name):
        inner = getattr(owner, name)

        def outer(*args):
            # Looking at each call of thousands would take minutes.
            self.step += 1
            if self.base and self.step % 29 == 0:
                self.look()
            return inner(*args)

        setattr(owner, name, outer)

    def alive(self):
        gc.collect()
        return gc.mem_alloc() if MICROPYTHON else 0

    def start(self):
        self.base = self.alive()

    def look(self):
        self.most = max(self.most, self.alive() - self.base)

    def end(self):
        for owner, name, inner in self.saved:
            setattr(owner, name, inner)
        print("most", self.most)
        assert self.most <= MOST, self.most
        if MICROPYTHON:
            assert self.most > 1000


def fill(session, size):
    user = user_record("u" * 15)
    answer = b'{"role":"assistant","content":"aaaaaaaaaaaaaaaaaaa"}'
    while session.size < size:
        session.add_user(user)
        session.begin(FINAL)
        session.write(answer)
        session.end()
        session.finish()


def turn(session, rounds=1):
    session.add_user(user_record("what is it now?"))
    for _ in range(rounds):
        session.begin(TOOL)
        session.write(b'{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}')
        session.end()
        session.begin(RESULT)
        session.write(b'[{"role":"tool","tool_call_id":"c","content":"')
        for _ in range(64):
            session.write(b"reading 21.5 " * 5)
        session.write(b'"}]')
        session.end()
        session.sync()
    session.begin(FINAL)
    session.write(b'{"role":"assistant","content":"')
    for _ in range(100):
        session.write(b"word ")
    session.write(b'"}')
    session.end()
    session.finish()


def long_session(root, size):
    store = SessionStore(root + "/s")
    session = store.open(SID)
    fill(session, size)
    store.close(session)
    return store, session.count


def test_open_append_stream_and_compact_in_8_kb(root):
    peak = Peak()
    store, records = long_session(root, 147000)
    assert records >= 2800
    buf = bytearray(256)
    peak.start()
    session = store.open(SID)
    assert session.count == records
    total = 0
    for i in range(session.count - 1, -1, -1):
        for piece in session.chunks(i, buf):
            total += len(piece)
        if i % 50 == 0:
            peak.look()
    assert total + session.count == session.size
    # Appending until it compacts, which rewrites all of it.
    rounds = 0
    while not session.take_notices():
        turn(session, 2)
        rounds += 1
        assert rounds < 5
    peak.end()
    assert session.size <= 153600 and not session.blocked
    assert session.count == records + 2 * (rounds - 1) + 6


def test_a_rebuild_of_the_idx_needs_no_more(root):
    peak = Peak()
    store, records = long_session(root, 150000)
    path = root + "/s/" + store.list()[0][1] + ".idx"
    with open(path, "rb") as f:
        whole = f.read()
    os.remove(path)
    peak.start()
    session = store.open(SID)
    peak.end()
    assert session.count == records
    store.close(session)
    with open(path, "rb") as f:
        assert f.read() == whole


def test_trim_needs_no_more(root):
    peak = Peak()
    store, _ = long_session(root, 150000)
    peak.start()
    session = store.open(SID)
    assert session.trim() > 100
    peak.end()
    assert session.size <= 76800


def ballast(left):
    """Take all of the heap but about `left` bytes."""
    held = []
    if MICROPYTHON:
        for size in (4096, 512, 64):
            try:
                while gc.mem_free() > left + size:
                    held.append(bytearray(size))
            except MemoryError:
                gc.collect()
    return held


def test_memory_that_runs_out_is_not_damage(root):
    # Opening with far too little heap fails or works, and changes nothing on flash.
    store = SessionStore(root + "/s")
    session = store.open(SID)
    fill(session, 30000)
    turn(session)
    store.close(session)
    count = session.count
    name = session.path
    session = None
    failed = 0
    for left in (256, 512, 768, 1024, 1536, 2048, 3072):
        held = ballast(left)
        try:
            store.open(SID).count
        except MemoryError:
            failed += 1
        held.clear()
        gc.collect()
        store = SessionStore(root + "/s")
    assert failed or not MICROPYTHON
    with open(name, "rb") as f:
        lines = 0
        for _ in f:
            lines += 1
    session = store.open(SID)
    assert session.count == count == lines
    assert session.take_notices() == []
