"""Runs under MicroPython: plays memory scripts with the device code on a LittleFS image.

Arguments: image file, scripts file (a JSON list, see test_memory_mp.py). Prints
one JSON line a script: what the device sees, finds and lets through its gates at the end.
"""

import binascii
import json
import os
import sys

import mp_image


class Clock:
    now = 0

    def __call__(self):
        return self.now


def some_id(store, number):
    ids = [item["id"] for item in store.items()]
    return ids[number % len(ids)] if ids else "none"


def play(store, clock, step):
    op = step[0]
    if op == "store":
        try:
            store.store(step[1], step[2], step[3], "manual")
        except ValueError:
            pass
    elif op == "recall":
        store.recall([])
    elif op == "search":
        store.search(step[1])
    elif op == "clock":
        clock.now = step[1]
    elif op == "flush":
        store.flush()
    elif op == "pin":
        store.pin(some_id(store, step[1]))
    elif op == "forget":
        store.forget(some_id(store, step[1]))
    elif op == "update":
        store.update(some_id(store, step[1]), step[2])


def copy(source, target):
    os.mkdir(target)
    for name in os.listdir(source):
        with open(source + "/" + name, "rb") as f:
            data = f.read()
        with open(target + "/" + name, "wb") as f:
            f.write(data)


def item_of(item):
    keys = ("id", "content", "tags", "keywords", "source", "created_at", "updated_at")
    return [item[key] for key in keys] + [item["access_count"], item["pinned"]]


image, scripts = sys.argv[1:3]
with open(scripts) as f:
    todo = json.load(f)
mp_image.mount(image)

from upyclaw.memory.gates import apply  # noqa: E402
from upyclaw.memory.recall import search  # noqa: E402
from upyclaw.memory.store import MemoryStore  # noqa: E402

for number, one in enumerate(todo):
    root = f"/flash/{number}"
    os.mkdir(root)
    root += "/memory"
    if one["files"]:
        os.mkdir(root)
    for name in one["files"]:
        with open(root + "/" + name, "wb") as f:
            f.write(binascii.a2b_base64(one["files"][name]))
    clock = Clock()
    clock.now = one["now"]
    store = MemoryStore(root, clock)
    for step in one["steps"]:
        play(store, clock, step)
    clock.now = one["now"]
    store.open()
    store.journal.flush()
    store.release()
    look = MemoryStore(root, clock, 128, True)
    told = {"items": [item_of(item) for item in look.items()], "found": []}
    told["labels"] = [[name, refs] for _, name, refs in look.labels()]
    for query in one["queries"]:
        found = search(look.open(), query, 8)
        told["found"].append([[look.id_of(slot), score] for slot, score in found])
    told["by_label"] = []
    for name, _ in told["labels"]:
        told["by_label"].append([look.id_of(slot) for slot in look.recall([name], 8)])
    look.release()
    # The gates, on a copy.
    copy(root, root + "2")
    told["gates"] = []
    for said, reply in one["replies"]:
        results = apply(MemoryStore(root + "2", clock), reply, said)
        told["gates"].append(
            None if results is None else [[r.what, r.why, r.content] for r in results]
        )
    print(json.dumps(told))
mp_image.umount()
