"""Runs under MicroPython: a scripted user lives with the memory for many virtual days.

Argument: number of days. A diary (Oracle) knows what must be remembered; facts
go through the whole pipeline: orders, filter, worker, prompt, a scripted model, gates, store on
LittleFS in a RAM flash that counts erases. Clocks are virtual, the board is restarted now and then
with and without warning. Prints one JSON line: what was done, what it cost, what is left.
"""

import asyncio
import binascii
import json
import os
import sys

import vfs
from counting_flash import CountingFlash
from dice import Dice

START = 1796026877
ROOT = "/soak/memory"
FILES = ("memory_records.jsonl", "memory_index.json", "MEMORY.md", "memory_digest.log")


SYLLABLES = [c + v for c in "bdfgklmprt" for v in "aou"]
HAN = "山水火木金土石田禾竹米羊牛马鸟鱼虫贝车舟门户刀弓衣食雨云雪风光星河湖海岛"


def word(number, parts):
    """A made-up word, another one for each number."""
    out = ""
    for _ in range(parts):
        out += SYLLABLES[number % 30]
        number //= 30
    return out


def han(number, parts):
    out = ""
    for _ in range(parts):
        out += HAN[number % len(HAN)]
        number //= len(HAN)
    return out


class Fact:
    """Something the user owns, with a value that may change."""

    def __init__(self, number, value):
        self.chinese = number % 4 == 3
        # Far from each other, so that no two share a beginning.
        spread = number * 7919 % 26000
        self.thing = han(spread, 3) if self.chinese else word(spread, 3)
        self.label = han(number % 7, 2) if self.chinese else word(number % 9, 2)
        self.set(value)

    def set(self, value):
        self.value = han(value * 5077 % 46000, 3) if self.chinese else word(value * 5077, 4)

    def said(self):
        return ("我的%s是%s" if self.chinese else "My %s is %s") % (self.thing, self.value)

    def corrected(self):
        form = "不对，我的%s现在是%s" if self.chinese else "Actually my %s is %s now"
        return form % (self.thing, self.value)

    def content(self):
        form = "用户的%s是%s" if self.chinese else "User's %s is %s"
        return form % (self.thing, self.value)

    def question(self):
        return ("我的%s是什么" if self.chinese else "What is my %s?") % self.thing

    def gone(self):
        form = "我不再有%s了，不用记" if self.chinese else "I no longer have a %s"
        return form % self.thing

    def forget(self):
        return ("忘掉我的%s" if self.chinese else "Forget about my %s") % self.thing


class Entry:
    """What the diary knows of one memory."""

    def __init__(self, fact, content, order, now):
        self.fact = fact
        self.content = content
        self.order = order
        self.count = 0
        self.time = now
        self.pinned = False

    def score(self):
        return self.count * 3 + self.time // 3600


class Board:
    """The memory as the agent wires it, and a clock that can be unset."""

    def __init__(self, clock):
        self.clock = clock
        self.reply = None
        self.calls = 0
        self.start()

    def start(self):
        """Power on: nothing is in RAM."""
        self.store = MemoryStore(ROOT, self.clock)
        self.store.open()
        self.worker = Worker(self.store, self.model)
        self.task = asyncio.create_task(self.worker.run())

    def stop(self):
        self.task.cancel()
        self.store.release()

    async def model(self, parts, user, timeout_ms):
        """The scripted model: sees what a model would see of the stored items."""
        self.calls += 1
        offered = {}
        for line in user[: user.index("<<<")].split("\n"):
            if line.startswith("Stored "):
                ident, _, content = line[7:].partition(": ")
                offered[ident] = content
        return json.dumps(self.reply(offered))

    async def say(self, text, reply=None):
        """A line of the user: an order, or the worker's. Returns what took it."""
        if obey(self.store, text):
            return "order"
        self.reply = reply
        before = self.worker.states()
        assert self.worker.submit("s", text)
        while True:
            await asyncio.sleep(0)
            states = self.worker.states()
            for end in ("done", "skipped"):
                if states[end] > before[end]:
                    return end
            assert states["failed"] == before["failed"], (text, states)

    def text(self, ident):
        """What is stored under an id, None if nothing is."""
        item = self.store.get(ident)
        return item["content"] if item else None


class Clock:
    now = START
    unset = False

    def __call__(self):
        return 0 if self.unset else self.now


def same_as(content, offered):
    for ident, other in offered.items():
        if content in other:
            return ident
    return "mem-0-0"


class Life:
    """The user's days. `known` is the diary: id -> Entry."""

    def __init__(self, days):
        self.days = days
        self.dice = Dice(2026)
        self.clock = Clock()
        self.board = Board(self.clock)
        self.known = {}
        self.numbers = self.values = self.born = 0
        self.done = {}
        self.most = {}
        self.slack = 0  # accesses that restarts lost

    def count(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    def now(self):
        if not self.clock.unset:
            return self.clock.now
        return max([e.time for e in self.known.values()])

    def some(self, pinned=True):
        """An id that is known; favourites come up more often. `pinned`: may it be a pinned one."""
        ids = sorted([i for i in self.known if pinned or not self.known[i].pinned])
        if self.dice.chance(60):
            loved = [i for i in ids if self.known[i].order % 12 == 0]
            ids = loved or ids
        return self.dice.pick(ids)

    async def day(self, number):
        dice = self.dice
        if number == keep_code_from:
            upyclaw.memory.MICROPYTHON = False
        events = []
        for what, percent in (
            ("fact", 10),
            ("order", 3),
            ("correct", 4),
            ("forget", 1),
            ("gone", 1),
            ("again", 2),
            ("recall", 14),
            ("talk", 3),
        ):
            if dice.chance(percent):
                events.append(what)
        for hour in range(0, 24, 2):
            self.clock.now += 7200
            shift[0] += 7200000
            if number % 61 == 36 and hour == 14:
                self.restart(dice.chance(50))
                # The clock comes over the network a little later.
                self.clock.unset = dice.chance(30)
            if hour >= 8 and events and dice.chance(70):
                what = events.pop(dice.below(len(events)))
                if self.known or what in ("fact", "order", "talk"):
                    await getattr(self, what)()
                    self.count(what)
            self.board.store.idle()
        self.clock.unset = False
        if number in (30, 300, 900):
            ident = self.some()
            assert self.board.store.pin(ident)
            self.known[ident].pinned = True
        self.measure()
        if number % 100 == 99:
            self.check()

    # what the user does

    def new_fact(self):
        self.numbers += 1
        self.values += 1
        return Fact(self.numbers, self.values)

    def stored(self, fact, content):
        ident = "mem-{}-{:04d}".format(*self.board.store.last_id)
        assert ident not in self.known, ident
        found = self.board.text(ident)
        assert found == content, (content, found)
        if len(self.known) == 128:
            self.evicted()
        self.born += 1
        self.known[ident] = Entry(fact, content, self.born, self.now())

    def evicted(self):
        """The digest tells who went; it must have been one of the coldest."""
        with open(ROOT + "/memory_digest.log", "rb") as f:
            f.seek(max(0, f.seek(0, 2) - 8192))
            tail = f.read()
        line = tail[tail.rfind(b"\tevict\t") :].split(b"\n")[0].decode().split("\t")
        gone = self.known.pop(line[2])
        assert not gone.pinned
        coldest = min([e.score() for e in self.known.values() if not e.pinned])
        # A restart loses a few accesses, and tells their hour only roughly.
        assert gone.score() <= coldest + 12 + 3 * self.slack, (line, gone.score(), coldest)
        self.count("evicted")

    async def fact(self):
        fact = self.new_fact()
        memory = {"content": fact.content(), "tags": [fact.label], "keywords": [fact.thing]}
        reply = {"intent": "none", "memories": [memory]}
        assert await self.board.say(fact.said(), lambda offered: reply) == "done"
        self.stored(fact, fact.content())

    async def order(self):
        fact = self.new_fact()
        head = "记住：" if fact.chinese else "Remember: "
        assert await self.board.say(head + fact.said()) == "order"
        self.stored(fact, fact.said())

    async def correct(self):
        ident = self.some()
        entry = self.known[ident]
        fact = entry.fact
        before = entry.content
        self.values += 1
        fact.set(self.values)
        named = self.dice.chance(50)

        def reply(offered):
            memory = {"content": fact.content(), "tags": [fact.label]}
            if named:
                memory["replaces"] = same_as(before, offered)
            return {"intent": "replace", "memories": [memory]}

        assert await self.board.say(fact.corrected(), reply) == "done"
        found = self.board.text(ident)
        assert found == fact.content(), (before, found)
        entry.content = fact.content()
        entry.time = max(entry.time, self.now())

    async def gone(self):
        ident = self.some(False)
        entry = self.known.pop(ident)

        def reply(offered):
            return {
                "intent": "forget",
                "memories": [],
                "forgets": [same_as(entry.content, offered)],
            }

        assert await self.board.say(entry.fact.gone(), reply) == "done"
        assert self.board.text(ident) is None, entry.content

    async def forget(self):
        ident = self.some(False)
        entry = self.known.pop(ident)
        assert await self.board.say(entry.fact.forget()) == "order"
        assert self.board.text(ident) is None, entry.content

    async def again(self):
        ident = self.some()
        entry = self.known[ident]

        def reply(offered):
            content = entry.fact.content()
            return {"memories": [{"content": content, "same": same_as(entry.content, offered)}]}

        assert await self.board.say(entry.fact.said(), reply) == "done"
        assert self.board.text(ident) == entry.content
        entry.time = max(entry.time, self.clock())

    async def recall(self):
        ident = self.some()
        entry = self.known[ident]
        slots = self.board.store.search(entry.fact.question(), 1)
        assert self.board.store.id_of(slots[0]) == ident, entry.content
        entry.count += 1
        entry.time = max(entry.time, self.clock())

    async def talk(self):
        calls = self.board.calls
        line = self.dice.pick(("Good morning!", "thanks", "What time is it?", "你好", "/status"))
        assert await self.board.say(line) == "skipped" and self.board.calls == calls

    # the board

    def restart(self, clean):
        """Power off and on: with warning everything is on flash, without some counts are not."""
        if clean:
            self.board.store.flush()
        self.board.stop()
        self.board.start()
        lost = 0
        for item in self.board.store.items():
            entry = self.known[item["id"]]
            assert item["access_count"] <= entry.count, item
            lost += entry.count - item["access_count"]
            entry.count = item["access_count"]
            assert item["updated_at"] <= self.clock.now
            entry.time = item["updated_at"]
        assert lost <= (0 if clean else 64), lost
        self.count("restarts")
        self.done["lost"] = self.done.get("lost", 0) + lost

    def measure(self):
        for name in FILES:
            try:
                size = os.stat(ROOT + "/" + name)[6]
            except OSError:
                continue
            self.most[name] = max(self.most.get(name, 0), size)

    def check(self):
        """Everything the diary knows is remembered, and nothing else."""
        left = dict(self.known)
        for item in self.board.store.items():
            entry = left.pop(item["id"])
            assert item["content"] == entry.content, (item, entry.content)
            assert item["pinned"] == entry.pinned, item
            assert item["access_count"] == entry.count, (item, entry.count)
        assert not left, left


def content(name):
    with open(ROOT + "/" + name, "rb") as f:
        return binascii.b2a_base64(f.read()).decode().strip()


async def main():
    days = int(sys.argv[1])
    life = Life(days)
    start = flash.erases
    written = flash.programmed
    for number in range(days):
        await life.day(number)
    life.board.store.flush()
    life.measure()
    life.check()
    life.board.stop()
    left = [[i, e.content, e.count, e.pinned] for i, e in life.known.items()]
    out = {
        "days": days,
        "done": life.done,
        "calls": life.board.calls,
        "erases": flash.erases - start,
        "programmed": flash.programmed - written,
        "most": life.most,
        "known": left,
        "files": {name: content(name) for name in FILES},
        "names": sorted(os.listdir(ROOT)),
        "now": life.clock.now,
    }
    print(json.dumps(out))


from upyclaw import compat  # noqa: E402

# Virtual time: the idle rules look at ticks.
real = compat.ticks_ms
shift = [0]
compat.ticks_ms = lambda: compat.ticks_add(real(), shift[0])

import upyclaw.memory  # noqa: E402

# Code that a board drops after use is compiled anew for each use here: too slow for 2,000 days.
# (What a board does is in the device's own tests, and here in the first days.)
keep_code_from = 15
from upyclaw.memory.orders import obey  # noqa: E402
from upyclaw.memory.store import MemoryStore  # noqa: E402
from upyclaw.memory.worker import Worker  # noqa: E402

flash = CountingFlash()
vfs.VfsLfs2.mkfs(flash, progsize=64)
vfs.mount(vfs.VfsLfs2(flash, progsize=64), "/soak")
asyncio.run(main())
