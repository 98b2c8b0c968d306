"""What a flash did and what a session must be: for powercut.py, in MicroPython.

Owns: the recording flash, the state of a session, and compaction and trim worked out from the
specification with plain lists, so that the device's own code is compared with something else.
"""

import json
import struct

import vfs

from upyclaw.storage import FINAL, RESULT, TOOL, USER

BLOCK = 4096
ROOT = "/cut/data/sessions"


class Flash:
    """Blocks in RAM; `ops` holds (block, offset, data) of each program, data None for an erase."""

    def __init__(self, blocks, prog):
        self.blocks = blocks
        self.prog = prog
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


# Sizes a board may be mounted with; they decide which files lie inline in the metadata.
PROG_SIZES = (64, 128, 32)


def mount(flash):
    vfs.mount(vfs.VfsLfs2(flash, progsize=flash.prog), "/cut")


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
            dropped = State(state.records[:s]).data()
            # Older ones are kept as long as all of them are not more than a session may hold.
            rest.old = state.old + dropped
            if len(rest.old) > limit:
                rest.old = dropped
            return rest


def read(path):
    """Content of a file, empty if there is none."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""
