"""What is asked of the session store when its heap is measured, and how the most of it is found.

Owns the turns and the peak; the numbers that must hold are the bench's and the test's. In CPython
the turns are the same and the peak is 0.
"""

import gc
import sys

from upyclaw.storage import FINAL, RESULT, TOOL, user_record

SID = "chat:serial:local:default_01"
_MEASURED = sys.implementation.name == "micropython"


class Peak:
    """The most bytes alive above `start()`, looked at as the store reads, writes and copies."""

    def __init__(self):
        from upyclaw.storage.index import Index
        from upyclaw.storage.scan import Scan
        from upyclaw.storage.session import Session

        self.base = self.most = self._step = 0
        self._saved = []
        for owner, names in (
            (Index, ("get", "add", "spill", "store")),
            (Scan, ("feed",)),
            (Session, ("copy", "write", "read_piece")),
        ):
            for name in names:
                self._watch(owner, name)

    def _watch(self, owner, name):
        inner = getattr(owner, name)
        self._saved.append((owner, name, inner))

        def outer(*args):
            # Looking at each of the many thousand calls would take minutes.
            self._step += 1
            if self.base and self._step % 29 == 0:
                self.look()
            return inner(*args)

        setattr(owner, name, outer)

    def _alive(self):
        gc.collect()
        return gc.mem_alloc() if _MEASURED else 0

    def start(self):
        self.base = self._alive()
        self.most = 0

    def look(self):
        self.most = max(self.most, self._alive() - self.base)

    def end(self):
        """Take the watch off the store."""
        self.look()
        for owner, name, inner in self._saved:
            setattr(owner, name, inner)


def turn(session, rounds=0):
    """A question, `rounds` tool calls with 4 KB of result each, an answer."""
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


def fill(session, size, records=0):
    """Short turns until the session has `size` bytes and `records` records."""
    while session.size < size or session.count < records:
        turn(session)
