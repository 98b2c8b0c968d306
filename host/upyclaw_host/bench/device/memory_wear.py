"""Counts erases of the long-term memory on LittleFS: runs in MicroPython, prints a JSON line.

    micropython -X heapsize=8m memory_wear.py [IDLE_EACH]

160 facts (7,055 bytes of text, as in the reference's own measurement) a minute apart on a virtual
clock, then 200 recalls. With IDLE_EACH the facts are an hour apart and the board is idle between.
"""

import json
import os
import sys

import vfs
from counting_flash import CountingFlash

TEXT_BYTES = 7055
FACTS = 160


def fact(i):
    """A fact of 44 or 45 bytes, all different in their words."""
    thing = chr(97 + i % 26) * (3 + i // 26)
    drawer = chr(97 + i // 7 % 26) * 3
    text = f"User keeps thing {thing} in drawer {drawer} of room {chr(97 + i * 11 % 26) * 4} now"
    n = TEXT_BYTES * (i + 1) // FACTS - TEXT_BYTES * i // FACTS
    return (text + " indeed" * 4)[:n]


def main():
    from upyclaw import compat

    # Virtual time: the idle rules look at ticks.
    real = compat.ticks_ms
    shift = [0]
    compat.ticks_ms = lambda: compat.ticks_add(real(), shift[0])
    from upyclaw.memory.store import MemoryStore

    idle_each = len(sys.argv) > 1
    flash = CountingFlash()
    vfs.VfsLfs2.mkfs(flash, progsize=64)
    vfs.mount(vfs.VfsLfs2(flash, progsize=64), "/bench")
    os.mkdir("/bench/data")
    seconds = [1796000000]
    memory = MemoryStore("/bench/data/memory", clock=lambda: seconds[0])
    memory.open()
    memory.flush()
    out = {"facts": FACTS, "text_bytes": 0, "idle_each": idle_each}
    start = flash.erases
    written = flash.programmed
    for i in range(FACTS):
        text = fact(i)
        out["text_bytes"] += len(text)
        how = memory.store(text, f"thing{i % 40},room")[0]
        assert how == "new", (how, text)
        for _ in range(60 if idle_each else 1):
            seconds[0] += 60
            shift[0] += 60000
            memory.idle()
    out["stored"] = len(memory)
    out["store_erases"] = flash.erases - start
    out["store_bytes"] = flash.programmed - written
    before = flash.erases
    memory.flush()
    out["flush_erases"] = flash.erases - before
    before = flash.erases
    for i in range(200):
        memory.search(fact(40 + i % 100), 1)
    out["recalls"] = 200
    out["recall_erases"] = flash.erases - before
    print(json.dumps(out))


main()
