"""Runs under MicroPython: plays session scenarios with the device code on a LittleFS image.

Arguments: image file, firmware folder, scenario file (a JSON list, see test_differential_mp.py).
Prints one JSON line a scenario: what the device sees of the session at the end.
"""

import binascii
import json
import sys

import vfs


class Blocks:
    """The image file as a block device of 4096-byte blocks."""

    def __init__(self, path):
        self.file = open(path, "r+b")  # noqa: SIM115  held for the whole run
        self.count = self.file.seek(0, 2) // 4096

    def readblocks(self, number, buf, off=0):
        self.file.seek(number * 4096 + off)
        self.file.readinto(buf)

    def writeblocks(self, number, buf, off=0):
        self.file.seek(number * 4096 + off)
        self.file.write(buf)

    def ioctl(self, op, arg):
        if op == 4:
            return self.count
        if op == 5:
            return 4096
        if op == 6:
            self.file.seek(arg * 4096)
            self.file.write(b"\xff" * 4096)
        elif op in (2, 3):
            self.file.flush()
        return 0


def put(path, text):
    if text is not None:
        with open(path, "wb") as f:
            f.write(binascii.a2b_base64(text))


def play(session, step):
    op = step[0]
    if op == "user":
        session.add_user(storage.user_record(step[1]))
    elif op == "record":
        raw = step[2].encode()
        session.begin(step[1], 1)
        for at in range(0, len(raw), 50):
            session.write(raw[at : at + 50])
        session.end()
    elif op == "sync":
        session.sync()
    elif op == "finish":
        session.finish(step[1])
    elif op == "close":
        session.close()


image, firmware, scenarios = sys.argv[1:4]
sys.path.insert(0, firmware)
blocks = Blocks(image)
vfs.VfsLfs2.mkfs(blocks, progsize=64)
with open(scenarios) as f:
    todo = json.load(f)
vfs.mount(vfs.VfsLfs2(blocks, progsize=64), "/flash")

from upyclaw import storage  # noqa: E402

store = storage.SessionStore("/flash/data/sessions")
for one in todo:
    path = store.root + "/" + storage.session_file_name(one["sid"])
    put(path, one["data"])
    put(path + ".idx", one["idx"])
    session = store.open(one["sid"])
    for step in one["steps"]:
        play(session, step)
    entries = [session.entry(i) for i in range(session.count)]
    crc = 0
    buf = bytearray(64)
    for i in range(session.count):
        for view in session.chunks(i, buf):
            crc = binascii.crc32(view, crc)
        crc = binascii.crc32(b"\n", crc)
    print(json.dumps({"entries": entries, "crc": crc & 0xFFFFFFFF}))
vfs.umount("/flash")
blocks.file.close()
