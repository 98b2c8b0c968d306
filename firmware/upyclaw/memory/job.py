"""One piece of the worker's work: taking a text in, asking the model, applying the reply.

Owns: what is skipped without a model, what a full queue does, the time limit. Must not know how
the model is reached. Loaded for it; while the model thinks nothing of the memory's code stays
loaded.
"""

import asyncio

from ..compat import const, sleep_ms
from .worker import WAITING

# ms for a reply that a turn has held back.
_AFTER = const(5000)
# Characters of two texts in one job.
_JOINED = const(2000)


def _skipped(text):
    """True if the text needs no model: nothing is stated, or it was an order and is obeyed."""
    from .filter import why_not
    from .spot import order

    return bool(why_not(text)) or order(text)[0] == "store"


def make_room(worker):
    """The queue is full: take out what needs no model, else join the two oldest texts of one
    session, else drop the oldest. Counted in each case."""
    jobs = worker.jobs
    try:
        for job in list(jobs):
            if _skipped(job[1]):
                jobs.remove(job)
                worker.skipped += 1
    except MemoryError:
        # A turn has just ended, and the words of the filter are many.
        worker.store.sleep()
    if len(jobs) < WAITING:
        return
    for i in range(len(jobs) - 1):
        a, b = jobs[i], jobs[i + 1]
        if a[0] == b[0] and len(a[1]) + len(b[1]) < _JOINED:
            b[1] = a[1] + "\n" + b[1]
            b[2] = a[2] + b[2]
            jobs.pop(i)
            worker.merged += 1
            return
    jobs.pop(0)
    worker.dropped += 1


def purge(worker, content):
    """See Worker.forgotten."""
    from .terms import shares, terms

    wanted = terms(content)
    worker.gone.append(content)
    for job in list(worker.jobs):
        if wanted and 2 * shares(wanted, job[1]) >= len(wanted):
            worker.jobs.remove(job)
            worker.dropped += 1


async def _within(worker, asked):
    """Await `asked`: the reply; None if it took too long; if it gave way False, or True if the
    model had it already. `wait_for` swallows a cancellation that comes together with the result
    (CPython before 3.12); the worker would go on for ever (B61)."""
    wake = asyncio.Event()
    out: list = []

    async def ask():
        try:
            out.append((await asked, None))
        except asyncio.CancelledError:
            out.append((not worker.sending, None))
        except Exception as e:
            out.append((None, e))
        wake.set()

    async def clock():
        await sleep_ms(worker.timeout_ms)
        if worker.held:
            # The reply may be there and wait for the end of the turn.
            await worker.until_quiet()
            await sleep_ms(_AFTER)
        wake.set()

    tasks = (asyncio.create_task(ask()), asyncio.create_task(clock()))
    worker.asking = tasks[0]
    try:
        await wake.wait()
    finally:
        worker.asking = None
        worker.sending = False
        for task in tasks:
            task.cancel()
    if not out:
        return None
    reply, error = out[0]
    if error:
        raise error
    return reply


def _asked(worker, text):
    """(ids that the model is shown, the call of the model) for one text."""
    store = worker.store
    items = _items(store, text)
    catalogue = _labels(store)
    store.sleep()
    from .prompt import question

    parts, user = question(store, text, items, catalogue)
    return [item[0] for item in items], worker.call_model(parts, user, worker.timeout_ms)


def _items(store, text):
    from .similar import similar

    return similar(store, text)


def _labels(store):
    from .similar import labels

    return labels(store)


def _applied(worker, reply, job, offered):
    from .gates import apply

    secrets = worker.secrets() if worker.secrets else ()
    return apply(worker.store, reply, job[1], offered, secrets, worker.gone, job[2])


async def work(worker, job):
    """Ask about one text and apply the answer; counts as done or failed. The worker catches what
    the model's side raises."""
    store = worker.store
    if _skipped(job[1]):
        worker.skipped += 1
        return
    store.sleep()
    offered, asked = _asked(worker, job[1])
    store.sleep()
    reply = await _within(worker, asked)
    if reply is False:
        worker.jobs.insert(0, job)
        return
    if reply is True:
        worker.dropped += 1
        return
    if reply is None:
        worker.failed += 1
        worker.last = "The model did not answer within {} s.".format(worker.timeout_ms // 1000)
        return
    # Beside a turn there is no room for it; what the user hears first is the turn.
    await worker.free()
    try:
        results = _applied(worker, reply, job, offered)
    except MemoryError:
        # Once more with all that can be given back. What is stored already is found again.
        store.label_list = None
        store.sleep()
        worker.make_room()
        results = _applied(worker, reply, job, offered)
    from .gates import labels_in, note

    if results is None:
        worker.failed += 1
        worker.last = "The model's answer was not in the form asked for."
        return
    worker.done += 1
    sentence = note(labels_in(results))
    if sentence and worker.notify:
        worker.notify(job[0], sentence)
