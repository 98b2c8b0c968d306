"""Counts what a turn costs the flash: `micropython wear.py`, prints JSON lines.

Owns: the turns of the device's store and, beside it, the file pattern of the reference (validate
by reading the idx, append to data, append to idx, each with its own open and close; `spec` §6 and
§7). Both write the same records, each on a fresh flash of 2 MiB.
"""

import gc
import json
import os
import struct

import vfs
from counting_flash import BLOCK, CountingFlash

from upyclaw.storage import FINAL, RESULT, TOOL, USER, SessionStore, session_file_name, user_record
from upyclaw.storage.codec import IDX_HEADER

BLOCKS = 512
ROOT = "/wear/data/sessions"
SID = "chat:serial:local:default_01"
TURNS = 200


class Counted:
    """A file of the store whose reads and writes are counted."""

    read_bytes = 0

    def __init__(self, f):
        self._f = f

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._f.close()

    def __iter__(self):
        for line in self._f:
            Counted.read_bytes += len(line)
            yield line

    def readinto(self, buf):
        n = self._f.readinto(buf)
        Counted.read_bytes += n
        return n

    def read(self, n=-1):
        data = self._f.read(n)
        Counted.read_bytes += len(data)
        return data

    def write(self, data):
        return self._f.write(data)

    def seek(self, *where):
        return self._f.seek(*where)

    def flush(self):
        self._f.flush()

    def close(self):
        self._f.close()


def counting():
    """Make the store's modules open files through Counted."""
    from upyclaw.storage import (
        compact,
        files,
        housekeeping,
        index,
        opening,
        pair,
        recover,
        session,
    )

    for module in (compact, files, housekeeping, index, opening, pair, recover, session):
        module.open = lambda path, mode="r": Counted(open(path, mode))


# ---- the two ways to write


class Ours:
    name = "ours"

    def __init__(self):
        # Appending alone: compaction is a case of its own.
        self.store = SessionStore(ROOT, limit=BLOCKS * BLOCK // 2)
        self.session = self.store.open(SID)

    def turn(self, user, rounds, final):
        session = self.session
        session.add_user(user)
        for call, result in rounds:
            self.put(TOOL, call)
            self.put(RESULT, result)
            session.sync()
        self.put(FINAL, final)
        session.finish()

    def put(self, rtype, data):
        # As a reply comes in: piece by piece.
        self.session.begin(rtype)
        view = memoryview(data)
        for i in range(0, len(data), 40):
            self.session.write(view[i : i + 40])
        self.session.end()


class Reference:
    """The reference's pattern: one persist for the user, one a tool round, one for the answer."""

    name = "reference"

    def __init__(self):
        path = ""
        for part in ROOT[1:].split("/"):
            path += "/" + part
            try:
                os.mkdir(path)
            except OSError:
                pass
        self.path = ROOT + "/" + session_file_name(SID)
        for end, data in (("", b""), (".idx", IDX_HEADER)):
            with open(self.path + end, "wb") as f:
                f.write(data)

    def persist(self, *records):
        size = os.stat(self.path)[6]
        window = bytearray(240)
        with open(self.path + ".idx", "rb") as f:
            f.read(8)
            while f.readinto(window):
                pass
        data = open(self.path, "ab")
        idx = open(self.path + ".idx", "ab")
        for rtype, text in records:
            data.write(text)
            data.write(b"\n")
            idx.write(struct.pack("<IIBB", size, len(text) + 1, rtype, 1))
            size += len(text) + 1
        data.close()
        idx.close()

    def turn(self, user, rounds, final):
        self.persist((USER, user))
        for call, result in rounds:
            self.persist((TOOL, call), (RESULT, result))
        self.persist((FINAL, final))


def fixed(user, answer):
    """A USER record of `user` bytes and a FINAL of `answer` bytes."""
    u = user_record("u" * (user - len(user_record(""))))
    f = b'{"role":"assistant","content":"' + b"a" * (answer - 33) + b'"}'
    return u, f


def tool_round(k):
    call = (
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function",'
        b'"function":{"name":"sensor_read","arguments":"{\\"channel\\":%d}"}}]}'
    ) % (k, k)
    result = b'[{"role":"tool","tool_call_id":"call_%d","content":"%s","is_error":false}]' % (
        k,
        b"reading 21.5 " * 20,
    )
    return call, result


# name, bytes of the user's record, of the answer, tool rounds, progsize of the mount
CASES = (
    ("plain turn", 150, 430, 0, 64),
    ("long question", 300, 430, 0, 64),
    ("tool turn, 3 rounds", 150, 430, 3, 64),
    ("plain turn, progsize 128", 150, 430, 0, 128),
    ("long question, progsize 128", 300, 430, 0, 128),
)


def fresh(prog=64):
    gc.collect()
    flash = CountingFlash(BLOCKS)
    vfs.VfsLfs2.mkfs(flash, progsize=prog)
    vfs.mount(vfs.VfsLfs2(flash, progsize=prog), "/wear")
    return flash


def measure(way, user, answer, rounds, prog):
    flash = fresh(prog)
    writer = way()
    u, f = fixed(user, answer)
    calls = [tool_round(k) for k in range(rounds)]
    writer.turn(u, calls, f)
    start = flash.erases, flash.programmed, flash.bytes_read
    Counted.read_bytes = 0
    first = None
    for i in range(TURNS):
        if i == TURNS - 20:
            first = Counted.read_bytes * 20 // i
            late = Counted.read_bytes
        writer.turn(u, calls, f)
    out = {
        "erases": round_(flash.erases - start[0]),
        "programmed": (flash.programmed - start[1]) // TURNS,
        "flash_read": (flash.bytes_read - start[2]) // TURNS,
    }
    if way is Ours:
        out["file_bytes_read_per_20_turns"] = [first, Counted.read_bytes - late]
    vfs.umount("/wear")
    return out


def round_(n):
    # Two decimals without floats.
    return "%d.%02d" % (n // TURNS, n % TURNS * 100 // TURNS)


def compaction():
    flash = fresh()
    ours = Ours()
    i = 0
    u, f = fixed(150, 430)
    while ours.session.size < 150000:
        ours.turn(u, [tool_round(k) for k in range(2 if i % 3 == 0 else 0)], f)
        i += 1
    ours.store.limit = 150000 - 1
    start = flash.erases, flash.programmed
    ours.session.tidy()
    out = {
        "case": "compaction",
        "kept": ours.session.size + 8 + 10 * ours.session.count,
        "erases": flash.erases - start[0],
        "programmed": flash.programmed - start[1],
    }
    vfs.umount("/wear")
    return out


def opening():
    """What opening a session of 150 KB and 3,000 records reads from its files."""
    fresh()
    store = SessionStore(ROOT)
    session = store.open(SID)
    u, f = fixed(44, 54)
    while session.size < 150000:
        session.add_user(u)
        session.begin(FINAL)
        session.write(f)
        session.end()
        session.finish()
    worst = 0
    for _ in range(15):
        session.add_user(u)
        session.begin(FINAL)
        session.write(f)
        session.end()
        session.finish()
        Counted.read_bytes = 0
        other = SessionStore(ROOT).open(SID)
        idx = 8 + 10 * other.index.stored
        worst = max(worst, Counted.read_bytes - idx)
        other.release()
    out = {"case": "opening", "data": session.size, "records": session.count, "idx": idx}
    out["read_beside_idx"] = worst
    session.release()
    vfs.umount("/wear")
    return out


def main():
    SessionStore.lean = False
    counting()
    for name, user, answer, rounds, prog in CASES:
        line = {"case": name, "turns": TURNS, "user": user, "answer": answer, "rounds": rounds}
        line["prog"] = prog
        for way in (Ours, Reference):
            line[way.name] = measure(way, user, answer, rounds, prog)
        print(json.dumps(line))
    print(json.dumps(compaction()))
    print(json.dumps(opening()))


main()
