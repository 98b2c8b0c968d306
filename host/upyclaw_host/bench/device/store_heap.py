"""Heap that a session of 150 KB and 3,000 records needs: `micropython store_heap.py IMAGE`, prints
JSON lines.

Owns the measurement: live bytes after a collection, looked at while the store reads, writes and
copies (store_load.py), above what was alive before the session was opened. The flash lies in
IMAGE, a file of the PC that has its size; code is loaded before (what it takes is in `bench size`
and in the turn of `bench ram`).
"""

import json
import os
import sys

import vfs
from file_flash import FileFlash

from upyclaw import compat

SIZE = 150000
RECORDS = 3000

# Must come before anything takes `unload` from there.
compat.unload = lambda *names: None

from store_load import SID, Peak, fill, turn  # noqa: E402

import upyclaw.prompt.history  # noqa: E402
import upyclaw.storage.compact  # noqa: E402
import upyclaw.storage.housekeeping  # noqa: E402
import upyclaw.storage.opening  # noqa: E402
import upyclaw.storage.recover  # noqa: E402, F401
from upyclaw.prompt import Request  # noqa: E402
from upyclaw.storage import SessionStore  # noqa: E402


def tell(peak, case, session):
    """Print the peak of `case` and go on from the same base."""
    peak.look()
    line = {"case": case, "heap": peak.most, "data": session.size, "records": session.count}
    print(json.dumps(line))
    peak.most = 0


def main():
    flash = FileFlash(sys.argv[1])
    vfs.VfsLfs2.mkfs(flash, progsize=64)
    vfs.mount(vfs.VfsLfs2(flash, progsize=64), "/heap")
    SessionStore.lean = False
    store = SessionStore("/heap/sessions")
    session = store.open(SID)
    fill(session, SIZE, RECORDS)
    store.close(session)
    path = session.path
    session = None
    buf = bytearray(256)
    peak = Peak()
    peak.start()
    session = store.open(SID)
    tell(peak, "opening", session)
    turn(session)
    tell(peak, "appending a turn", session)
    sent = 0
    for piece in Request(session, (), 1 << 20).pieces(buf):
        sent += len(piece)
    assert sent > SIZE, sent
    tell(peak, "streaming a request of all", session)
    # Tool records until it has to compact.
    while not session.take_notices():
        turn(session, 1)
    tell(peak, "compaction", session)
    store.close(session)
    os.remove(path + ".idx")
    session = store.open(SID)
    tell(peak, "making its idx again", session)
    session.trim()
    tell(peak, "trim", session)


main()
