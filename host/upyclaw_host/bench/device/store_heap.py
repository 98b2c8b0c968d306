"""Heap that a session of 150 KB and 3,000 records needs: `micropython store_heap.py IMAGE`, prints
JSON lines.

Owns the measurement: live bytes after a collection, looked at while the store reads, writes and
copies, above what was alive before the session was opened. The flash lies in IMAGE, a file of the
PC; code is loaded before (what it takes is in `bench size` and in the turn of `bench ram`).
"""

import gc
import json
import os
import sys

import vfs

from upyclaw import compat

BLOCK = 4096
BLOCKS = 512
SID = "chat:serial:local:default_01"
SIZE = 150000
RECORDS = 3000

# Must come before anything takes `unload` from there.
compat.unload = lambda *names: None

import upyclaw.prompt.history  # noqa: E402
import upyclaw.storage.compact  # noqa: E402
import upyclaw.storage.housekeeping  # noqa: E402
import upyclaw.storage.opening  # noqa: E402
import upyclaw.storage.recover  # noqa: E402, F401
from upyclaw.prompt import Request  # noqa: E402
from upyclaw.storage import FINAL, RESULT, TOOL, SessionStore, user_record  # noqa: E402
from upyclaw.storage.index import Index  # noqa: E402
from upyclaw.storage.scan import Scan  # noqa: E402
from upyclaw.storage.session import Session  # noqa: E402


class Flash:
    """Blocks in a file of the PC."""

    def __init__(self, path):
        self._file = open(path, "w+b")
        self._blank = b"\xff" * 256
        for _ in range(BLOCKS * BLOCK // 256):
            self._file.write(self._blank)

    def readblocks(self, block, buf, offset=0):
        self._file.seek(block * BLOCK + offset)
        self._file.readinto(buf)

    def writeblocks(self, block, buf, offset=0):
        self._file.seek(block * BLOCK + offset)
        self._file.write(buf)

    def ioctl(self, op, arg):
        if op == 4:
            return BLOCKS
        if op == 5:
            return BLOCK
        if op == 6:
            self._file.seek(arg * BLOCK)
            for _ in range(BLOCK // 256):
                self._file.write(self._blank)
        return 0


class Peak:
    """The most bytes alive above `start()`."""

    def __init__(self):
        self.base = self.most = self.step = 0
        for owner, names in (
            (Index, ("get", "add", "spill", "store")),
            (Scan, ("feed",)),
            (Session, ("copy", "write", "read_piece")),
        ):
            for name in names:
                self.watch(owner, name)

    def watch(self, owner, name):
        inner = getattr(owner, name)

        def outer(*args):
            # Each of the many thousand calls would take minutes.
            self.step += 1
            if self.base and self.step % 29 == 0:
                self.look()
            return inner(*args)

        setattr(owner, name, outer)

    def look(self):
        gc.collect()
        self.most = max(self.most, gc.mem_alloc() - self.base)

    def start(self):
        gc.collect()
        self.base = gc.mem_alloc()
        self.most = 0

    def tell(self, case, session):
        """Print the peak of `case` and go on from the same base."""
        self.look()
        line = {"case": case, "heap": self.most, "data": session.size, "records": session.count}
        print(json.dumps(line))
        self.most = 0


def turn(session, rounds):
    session.add_user(user_record("u" * 15))
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
    session.write(b'{"role":"assistant","content":"aaaaaaaaaaaaaaaaaaa"}')
    session.end()
    session.finish()


def main():
    flash = Flash(sys.argv[1])
    vfs.VfsLfs2.mkfs(flash, progsize=64)
    vfs.mount(vfs.VfsLfs2(flash, progsize=64), "/heap")
    SessionStore.lean = False
    store = SessionStore("/heap/sessions")
    session = store.open(SID)
    while session.size < SIZE or session.count < RECORDS:
        turn(session, 0)
    store.close(session)
    path = session.path
    session = None
    buf = bytearray(256)
    peak = Peak()
    peak.start()
    session = store.open(SID)
    peak.tell("opening", session)
    turn(session, 0)
    peak.tell("appending a turn", session)
    sent = 0
    for piece in Request(session, (), 1 << 20).pieces(buf):
        sent += len(piece)
    assert sent > SIZE, sent
    peak.tell("streaming a request of all", session)
    # Tool records until it has to compact.
    while not session.take_notices():
        turn(session, 1)
    peak.tell("compaction", session)
    store.close(session)
    os.remove(path + ".idx")
    session = store.open(SID)
    peak.tell("making its idx again", session)
    session.trim()
    peak.tell("trim", session)


main()
