"""Cuts the power at every flash operation of the long-term memory.

    micropython powercut_memory.py SEED STRIDE NAME...

Owns: the stories, what may be found after a cut, and the check. The recording flash is that of
powercut_model.py, the cuts are those of powercut_cut.py. What the check itself wrote is cut, too,
after every STRIDE-th of the first cuts. Prints one JSON line per story.
"""

import gc
import os
import sys

import powercut_cut
import vfs
from dice import Dice
from powercut_cut import Cutter
from powercut_model import PROG_SIZES, Flash, mount

from upyclaw.memory.compact import compact
from upyclaw.memory.store import MemoryStore

BLOCKS = 40
ROOT = "/cut/data/memory"


class Story:
    """A run of the store with what must survive it: `marks` are (operation, states, gone).

    states: what may be found from this operation on, each {id: (content, pinned)}; gone: texts
    that may be in no file any more.
    """

    def __init__(self, flash, seed, limit):
        self.flash = flash
        self.limit = limit
        self.random = Dice(seed).below
        self.start = 0  # of the count that decides where the second cuts are
        self.clock = 1796026877
        self.now = {}
        self.gone = []
        self.marks = []
        self.image = None
        self.store = None
        self.facts = 0

    def begin(self):
        """From here on it is recorded."""
        self.image = bytes(self.flash.image)
        self.flash.ops = []
        self.mark(self.now)

    def mark(self, *states):
        if self.flash.ops is not None:
            found = [dict(state) for state in states]
            self.marks.append((len(self.flash.ops), found, list(self.gone)))

    def done(self, after):
        self.now = after
        self.mark(after)
        self.clock += 60 + self.random(4000)

    def fact(self):
        words = ("tea", "Rad", "房子", "машина", "garden", "book", "喝咖啡", "friend", "Straße")
        self.facts += 1
        text = "User %d %s" % (self.facts, words[self.random(9)])
        return text + " and more" * self.random(20)

    def change(self, call, after):
        """Run `call`; until it returns, both the state before and `after` may be found."""
        self.mark(self.now, after)
        call()
        self.done(after)

    def store_fact(self):
        text = self.fact()
        # The id is what the store gives next: the clock and the highest number are known.
        seconds, number = self.store.last_id
        id = "mem-%d-%04d" % (max(self.clock, seconds), number + 1)
        after = dict(self.now)
        after[id] = (text[:255].strip(), False)
        if len(after) > self.limit:
            slot, _ = self.store.table.coldest(self.clock)
            after.pop(self.store.id_of(slot))
        self.change(lambda: self.store.store(text, "t%d,x" % self.random(9)), after)

    def store_facts(self, n):
        for _ in range(n):
            self.store_fact()

    def any_id(self):
        ids = sorted(self.now)
        return ids[self.random(len(ids))]

    def change_item(self, call, id, content, pinned):
        after = dict(self.now)
        after[id] = (content, pinned)
        self.change(call, after)

    def update(self):
        id = self.any_id()
        text = self.fact()[:255].strip()
        self.change_item(lambda: self.store.update(id, text), id, text, self.now[id][1])

    def refine(self):
        id = self.any_id()
        content, pinned = self.now[id]
        text = (content[:200] + ", as was said").strip()
        self.change_item(lambda: self.store.store(text), id, text, pinned)

    def pin(self):
        id = self.any_id()
        content, pinned = self.now[id]
        self.change_item(lambda: self.store.pin(id, not pinned), id, content, not pinned)

    def forget(self):
        id = self.any_id()
        after = dict(self.now)
        text = after.pop(id)[0]

        def call():
            self.store.forget(id)
            self.gone.append(text)

        self.change(call, after)

    def recall(self):
        for _ in range(1 + self.random(30)):
            self.store.recall([])
            self.clock += 1

    def flush(self):
        self.store.flush()

    def compact(self):
        compact(self.store)

    def fresh(self):
        """A store as after a start."""
        return MemoryStore(ROOT, clock=lambda: self.clock, limit=self.limit)

    def open(self):
        self.store = self.fresh()
        self.store.open()


def tell_first(story):
    story.begin()
    story.open()
    story.store_facts(3)
    story.flush()


def tell_stores(story):
    story.store_facts(12)
    story.flush()
    story.begin()
    story.store_facts(12)
    story.recall()
    story.store_fact()
    story.flush()


def tell_changes(story):
    story.store_facts(8)
    story.begin()
    for _ in range(3):
        story.update()
        story.refine()
        story.pin()
        story.recall()
    story.flush()


def tell_eviction(story):
    story.store_facts(story.limit)
    story.begin()
    for _ in range(8):
        story.store_fact()
        story.recall()
    story.flush()


def tell_forget(story):
    story.store_facts(10)
    story.recall()
    story.flush()
    story.begin()
    for _ in range(4):
        story.forget()
        story.store_fact()


def tell_compaction(story):
    story.store_facts(30)
    for _ in range(15):
        story.update()
    story.recall()
    story.begin()
    story.compact()
    story.store_fact()
    story.recall()
    story.compact()
    story.flush()


def tell_damage(story):
    story.store_facts(6)
    story.flush()
    story.store.release()
    with open(ROOT + "/memory_records.jsonl", "ab") as f:
        f.write(b"\xff\xfe broken\n" + b'{"id":"torn","content":"ha')
    with open(ROOT + "/memory_index.json", "wb") as f:
        f.write(b"{")
    story.begin()
    story.open()
    story.store_fact()
    story.flush()


def tell_careless(story):
    # Checks the harness: rewrites the records in place, as the reference does (WEAKNESSES 2, 8).
    story.store_facts(20)
    story.begin()
    story.mark(story.now)
    path = ROOT + "/memory_records.jsonl"
    story.store.release()
    with open(path, "rb") as f:
        data = f.read()
    os.remove(path)
    with open(path, "wb") as f:
        f.write(data)


# name: (story, items that the store holds at most)
STORIES = {
    "memory: first facts": (tell_first, 128),
    "memory: facts": (tell_stores, 128),
    "memory: update, refine, pin": (tell_changes, 128),
    "memory: eviction": (tell_eviction, 12),
    "memory: forget": (tell_forget, 128),
    "memory: compaction": (tell_compaction, 128),
    "memory: damaged files": (tell_damage, 128),
    "memory: careless rewrite": (tell_careless, 128),
}


def found(story):
    """A store as after a start and {id: (content, pinned)} in it; {} where no folder is yet."""
    try:
        os.stat(ROOT)
    except OSError:
        return None, {}
    store = story.fresh()
    return store, {item["id"]: (item["content"], item["pinned"]) for item in store.items()}


def not_allowed(got, states):
    return "%d items, allowed %s" % (len(got), [len(state) for state in states])


def check(story, states, gone, end):
    """What is wrong with the mounted flash, or None."""
    store, got = found(story)
    if got not in states:
        return not_allowed(got, states)
    if store is None:
        # Nothing was acknowledged before the folder was there.
        return None
    for name in os.listdir(ROOT):
        if name.endswith(".new"):
            return "left over: " + name
    # What was just forgotten may be in the old records until the call returns, no longer.
    for text in gone:
        for name in os.listdir(ROOT):
            with open(ROOT + "/" + name, "rb") as f:
                if text.encode() in f.read():
                    return "forgotten, but in " + name
    how, id, _ = store.store("Something said after the cut", "cut")
    if how != "new" or id in got:
        return "the next fact got id %s" % id
    store.flush()
    again, more = found(story)
    if id not in more or len(more) != min(len(got) + 1, story.limit):
        return "the next fact is not there"
    again.release()
    store.release()
    return None


def survives(story, states, gone, end):
    """None if one of the states is there, with or without the fact that `check` stored."""
    store, got = found(story)
    if store is not None:
        store.release()
    if got in states:
        return None
    extra = [id for id in got if got[id][0] == "Something said after the cut"]
    for id in extra:
        got.pop(id)
    for state in states:
        # The fact may have pushed one out.
        missing = [id for id in state if id not in got]
        if len(extra) == 1 and len(missing) <= (len(state) == story.limit):
            if not [id for id in got if got[id] != state.get(id)]:
                return None
    return not_allowed(got, states)


def main(seed, stride, names):
    for name in names:
        tell, limit = STORIES[name]
        flash = Flash(BLOCKS, PROG_SIZES[(seed - 1) % len(PROG_SIZES)])
        vfs.VfsLfs2.mkfs(flash, progsize=flash.prog)
        mount(flash)
        os.mkdir("/cut/data")
        story = Story(flash, seed * 7919, limit)
        if tell is not tell_first:
            story.open()
        tell(story)
        story.store.release()
        operations = len(flash.ops)
        cutter = Cutter(story, check, survives, torn_again=False)
        powercut_cut.tell(name, operations, *cutter.cut(stride))
        flash = story = cutter = None
        gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
