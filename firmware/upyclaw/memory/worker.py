"""The extraction worker: facts are taken out of what the user said, after the reply and beside it.

Owns: the queue of waiting texts, their states, the time limit, the supervision of its own task
(B07, B34, B61). Must not know how a model is reached or a chat is told: it gets callables. A reply
never waits for it; one model call a user turn, no retry, nothing kept over a restart.
"""

import asyncio
import gc

from ..compat import const

WAITING = const(4)
# A job holds its own copy of the text, so that no compaction takes it away (B35): this much of it.
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
        self._jobs = []
        self._running = None
        self._gone = []
        self._wake = asyncio.Event()
        self._held = 0
        self._counts = {"done": 0, "failed": 0, "dropped": 0, "merged": 0, "skipped": 0}
        self._last = ""
        store.on_forget = self._forgotten

    # -- from outside

    def submit(self, session_id, user_text, known=()):
        """Queue what the user said in one turn. Never blocks, never raises; True if it was taken.

        `user_text` is the bare text. `known` are contents that were stored in this turn already.
        Small talk, questions, commands and direct orders to remember are skipped without a model.
        """
        if not self.enabled:
            return False
        from .filter import why_not
        from .spot import order
        from .text import cut

        why = why_not(user_text) or ("order" if order(user_text)[0] == "store" else None)
        text = cut(user_text, _TEXT)
        self.store.sleep()
        if why:
            self._counts["skipped"] += 1
            return False
        if len(self._jobs) >= WAITING:
            self._make_room()
        self._jobs.append([session_id, text, list(known)])
        self._wake.set()
        return True

    def hold(self):
        """A turn begins: start no job until `go_on` (a running one is not stopped)."""
        self._held += 1

    def go_on(self):
        """The turn of the last `hold` is over."""
        self._held = max(0, self._held - 1)
        self._wake.set()

    def states(self):
        """{"waiting", "running", "done", "failed", "dropped", "merged", "skipped", "last"}: counts
        since the start; `last` is a sentence about the last failure, or ""."""
        out: dict = dict(self._counts)
        out["waiting"] = len(self._jobs)
        out["running"] = 1 if self._running else 0
        out["last"] = self._last
        return out

    async def run(self):
        """Work until cancelled. An error in a job ends the job, never the worker (B61)."""
        while True:
            while not self._jobs or self._held:
                self._wake.clear()
                await self._wake.wait()
            job = self._jobs.pop(0)
            self._running = job
            self._gone = []
            try:
                ok = await self._work(job)
                self._counts["done" if ok else "failed"] += 1
                if not ok:
                    self._last = "The model's answer was not in the form asked for."
            except asyncio.TimeoutError:
                self._failed(
                    "The model did not answer within {} s.".format(self.timeout_ms // 1000)
                )
            except Exception as e:
                self._failed("{}: {}".format(type(e).__name__, str(e)[:160]))
            finally:
                self._running = None
            self.store.sleep()
            gc.collect()

    # -- within

    def _failed(self, sentence):
        self._counts["failed"] += 1
        self._last = sentence

    async def _work(self, job):
        from .prompt import Question

        question = Question(self.store, job[1])
        limit = (self.timeout_ms + 999) // 1000
        reply = await asyncio.wait_for(
            self.call_model(question.parts, question.user, self.timeout_ms), limit
        )
        from .gates import apply, labels_in, note

        results = apply(
            self.store,
            reply,
            job[1],
            question.offered,
            self.secrets() if self.secrets else (),
            self._gone,
            job[2],
        )
        if results is None:
            return False
        sentence = note(labels_in(results))
        if sentence and self.notify:
            self.notify(job[0], sentence)
        return True

    def _make_room(self):
        """Join the two oldest waiting texts of one session, or drop the oldest; counted."""
        jobs = self._jobs
        for i in range(len(jobs) - 1):
            a, b = jobs[i], jobs[i + 1]
            if a[0] == b[0] and len(a[1].encode()) + len(b[1].encode()) < _TEXT:
                b[1] = a[1] + "\n" + b[1]
                b[2] = a[2] + b[2]
                jobs.pop(i)
                self._counts["merged"] += 1
                return
        jobs.pop(0)
        self._counts["dropped"] += 1

    def _forgotten(self, content):
        """An item was forgotten: waiting texts that say it are dropped too."""
        from .terms import shares, terms

        wanted = terms(content)
        self._gone.append(content)
        for job in list(self._jobs):
            if wanted and 2 * shares(wanted, job[1]) >= len(wanted):
                self._jobs.remove(job)
                self._counts["dropped"] += 1
