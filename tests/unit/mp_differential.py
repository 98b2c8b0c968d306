"""Runs under MicroPython: plays session scenarios with the device code on a LittleFS image.

Arguments: image file, scenario file (a JSON list, see test_differential_mp.py).
Prints one JSON line a scenario: what the device sees of the session at the end.
"""

import binascii
import json
import sys

import mp_image


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


image, scenarios = sys.argv[1:3]
with open(scenarios) as f:
    todo = json.load(f)
mp_image.mount(image)

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
mp_image.umount()
