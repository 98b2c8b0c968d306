"""The extraction worker: facts are taken out of what the user said, after the reply and beside it.

Owns: the queue of waiting texts, their states, the supervision of its own task (B07, B34, B61).
The work itself is in job.py, loaded for it. Must not know how a model is reached or a chat is
told: it gets callables. A reply never waits for it; one model call a user turn, no retry, nothing
kept over a restart.
"""

import asyncio

from ..compat import collect, const, sleep_ms, ticks_diff, ticks_ms
from . import over

WAITING = const(4)
# ms of a pause; between two looks at the clock.
_PAUSE = const(1000)
_STEP = const(100)
# Characters of a text that are looked at.
_TEXT = const(2000)


class Worker:
    """Takes user texts, asks the model, runs the reply through the gates.

    `call_model(parts, user, timeout_ms)` is awaited and gives the reply as str; it may raise
    anything. `parts` are system sections as the request builder takes them, `user` is the user
    message. `notify(session_id, sentence)` tells the chat; None: nobody is told. `secrets()` gives
    texts that are never stored. Run `run()` as a task.
    """

    def __init__(self, store, call_model, notify=None, secrets=None, timeout_ms=120000):
        self.store = store
        self.call_model = call_model
        self.notify = notify
        self.secrets = secrets
        self.timeout_ms = timeout_ms
        # Off: nothing is taken.
        self.enabled = True
        # Waiting [session_id, text, known contents]; the one at work; what was forgotten
        # meanwhile.
        self.jobs = []
        self.running = None
        self.gone = []
        self.held = 0
        # When the last pause began; None: there was none.
        self.since = None
        # The task that asks the model, and whether its request is still on its way out.
        self.asking = None
        self.sending = False
        self.done = self.failed = self.dropped = self.merged = self.skipped = 0
        self.last = ""
        self.wake = asyncio.Event()
        # Called before the reply is applied: what only turns need may leave the heap.
        self.make_room = collect
        store.on_forget = self.forgotten

    def submit(self, session_id, user_text, known=()):
        """Queue what the user said in one turn. Never blocks; True if it was taken.

        `user_text` is the bare text. `known` are contents that were stored in this turn already.
        Small talk, questions, requests and direct orders to remember are skipped when their turn
        comes, without a model.
        """
        if not self.enabled:
            return False
        if len(self.jobs) >= WAITING:
            try:
                from .job import make_room

                make_room(self)
            except MemoryError:
                self.jobs.pop(0)
                self.dropped += 1
            self.store.sleep()
        # At most so much of it: a job holds its own copy, so that no compaction takes it away
        # (B35).
        self.jobs.append([session_id, user_text[:_TEXT], list(known)])
        self.wake.set()
        return True

    async def hold(self):
        """A turn begins: start no job until `go_on`.

        A request that is still on its way out gives way, because the heap has no room for two,
        and goes out anew after the turn. One that the model has is waited for beside the turn.
        """
        self.held += 1
        if self.sending:
            await self.give_way()

    async def give_way(self):
        """End a running request. One that the model has is not asked again (B34): its job is
        dropped; another goes out after the turn."""
        if self.asking:
            self.asking.cancel()
            while self.asking:
                await sleep_ms(0)

    def send(self, on):
        """The request of the running job begins to go out (`on`), or is out."""
        self.sending = on

    def go_on(self):
        """The turn of the last `hold` is over."""
        self.held = max(0, self.held - 1)
        self.wake.set()

    def pause(self):
        """A turn has just ended, and the next line may come at once: start no job for a second."""
        self.since = ticks_ms()

    def left(self):
        """Texts not looked through yet; the PC waits for 0 before it takes its model away."""
        return len(self.jobs) + (1 if self.running else 0)

    def states(self):
        """{"waiting", "running", "done", "failed", "dropped", "merged", "skipped", "last"}: counts
        since the start; `last` is a sentence about the last failure, or ""."""
        return {
            "waiting": len(self.jobs),
            "running": 1 if self.running else 0,
            "done": self.done,
            "failed": self.failed,
            "dropped": self.dropped,
            "merged": self.merged,
            "skipped": self.skipped,
            "last": self.last,
        }

    def forgotten(self, content):
        """An item was forgotten: waiting texts that say it are dropped too."""
        from .job import purge

        purge(self, content)

    async def until_quiet(self):
        """Wait until no turn is in work."""
        while self.held:
            self.wake.clear()
            await self.wake.wait()

    async def free(self):
        """Wait until no turn is in work, then have the heap to ourselves."""
        await self.until_quiet()
        self.make_room()

    def early(self):
        """True while a pause lasts."""
        return self.since is not None and ticks_diff(ticks_ms(), self.since) < _PAUSE

    async def run(self):
        """Work until cancelled. An error in a job ends the job, never the worker (B61)."""
        while True:
            while not self.jobs or self.held or self.early():
                if self.jobs and not self.held:
                    await sleep_ms(_STEP)
                    continue
                self.wake.clear()
                await self.wake.wait()
            self.running = self.jobs.pop(0)
            self.gone = []
            from . import job

            try:
                await job.work(self, self.running)
            except Exception as e:
                self.failed += 1
                self.last = "{}: {}".format(type(e).__name__, str(e)[:160])
            finally:
                self.running = None
            over(job)
            del job
            self.store.sleep()
