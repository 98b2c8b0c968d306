"""Makes a session smaller: compaction, thinning, trimming, blocking. Imported only for that.

Owns: the choice of what is kept (SPEC-session §9) and the rewrite of a pair under temporary names.
There is no truncate and no rename of two files at once (B48), so:
  1. `.new` is created, then `.idx.new`, then `.old.new` if dropped turns are kept; all are closed
  2. `.open` (stale) is removed, `.new` renamed over the data file: the commit
  3. `.idx.new` and `.old.new` are renamed
While `.new` exists nothing has happened; without it what is left is finished (recover.settle).
Heap: 8 KB at most for any session; records are copied in pieces.
"""

import struct

from upyclaw.storage import files
from upyclaw.storage.codec import ENTRY_FORMAT, FINAL, IDX_HEADER, RESULT, TOOL, USER
from upyclaw.storage.files import FlashFull, StorageError
from upyclaw.storage.scan import Scan, scan_record


def _kb(n):
    return "{} KB".format((n + 1023) // 1024)


class _Plan:
    """Which records of a session stay, and in which form."""

    def __init__(self, session, data):
        self.index = session.index
        self.session = session
        self.data = data
        self.count = len(self.index)
        self.first = 0  # records before this one go
        self.tools = (0, 0)  # the newest completed turn with tools keeps them
        self.open_from = self.count  # the last turn, if it never finished
        self.thin_to = 0  # results before this record become stand-ins
        self.scan = Scan()

    def analyse(self):
        """Find the turns whose tool records stay: as SPEC-session §9 tells it."""
        start = 0
        done = tools = False
        for i in range(self.count + 1):
            rtype = self.index.get(i)[2] if i < self.count else USER
            if rtype == USER and i > 0 or i == self.count:
                if done and tools:
                    self.tools = (start, i)
                if i == self.count and not done:
                    self.open_from = start
                start = i
                done = tools = False
            done |= rtype == FINAL
            tools |= rtype == TOOL or rtype == RESULT

    def keeps(self, i, rtype):
        """True if record `i` stays."""
        if i < self.first:
            return False
        if rtype == USER or rtype == FINAL or i >= self.open_from:
            return True
        return self.tools[0] <= i < self.tools[1]

    def changes(self, i, entry):
        """[(start, end, replacement)] within record `i`: reasoning out, stand-ins in (B03,
        B04)."""
        rtype = entry[2]
        if i >= self.thin_to if rtype == RESULT else rtype == USER or i >= self.open_from:
            return ()
        scan_record(self.data, entry[0], entry[1] - 1, self.scan, self.session.store.buf)
        if not self.scan.valid():
            return ()
        if rtype != RESULT:
            return [(a, b, b"") for a, b in self.scan.spans]
        out = []
        for a, b in self.scan.spans:
            mark = '"[result of {:,} bytes left out]"'.format(max(0, b - a - 2)).encode()
            if b - a > 64:
                out.append((a, b, mark))
        return out

    def saved(self, i, entry):
        """Bytes that `changes` takes from record `i`."""
        return sum(b - a - len(mark) for a, b, mark in self.changes(i, entry))

    def size(self):
        """Bytes of the records that stay, unchanged."""
        total = 0
        for i in range(self.count):
            e = self.index.get(i)
            if self.keeps(i, e[2]):
                total += e[1]
        return total

    def fit(self, limit):
        """Thin the newest tool turn as far as needed; returns the bytes that come out."""
        total = self.size()
        if total <= limit:
            return total
        for i in range(self.first, self.count):
            e = self.index.get(i)
            if e[2] != RESULT and self.keeps(i, e[2]):
                total -= self.saved(i, e)
        for i in range(self.first, self.count):
            if total <= limit:
                break
            e = self.index.get(i)
            if e[2] == RESULT and self.keeps(i, e[2]):
                self.thin_to = i + 1
                total -= self.saved(i, e)
        return total


def _copy(session, source, target, start, end):
    source.seek(start)
    session.copy(source, target, end - start)


def _write_record(plan, i, entry, out):
    # Copies record `i` with its changes; returns the bytes written, LF included.
    offset, length = entry[0], entry[1]
    at = 0
    n = length
    for a, b, mark in plan.changes(i, entry):
        _copy(plan.session, plan.data, out, offset + at, offset + a)
        out.write(mark)
        n -= b - a - len(mark)
        at = b
    _copy(plan.session, plan.data, out, offset + at, offset + length - 1)
    out.write(b"\n")
    return n


def _write_new(plan, path, keep_old):
    # Steps 1: the new files, complete and closed.
    session = plan.session
    new = idx = old = None
    try:
        new = open(path + ".new", "wb")
        idx = open(path + ".idx.new", "wb")
        idx.write(IDX_HEADER)
        if keep_old:
            old = open(path + ".old.new", "wb")
            if keep_old > 1:
                with open(path + ".old", "rb") as f:
                    session.copy(f, old, keep_old - 1)
        at = 0
        for i in range(plan.count):
            e = plan.index.get(i)
            if plan.keeps(i, e[2]):
                n = _write_record(plan, i, e, new)
                idx.write(struct.pack(ENTRY_FORMAT, at, n, e[2], e[3]))
                at += n
            elif old:
                _copy(session, plan.data, old, e[0], e[0] + e[1])
        new.close()
        new = None
        if old:
            old.close()
            old = None
        idx.close()
        idx = None
    finally:
        files.close(new)
        files.close(old)
        files.close(idx)


def _rewrite(plan, keep_old=0):
    # Replaces the pair by what the plan keeps. Raises FlashFull, StorageError; the old pair is
    # whole then.
    session = plan.session
    path = session.path
    try:
        _write_new(plan, path, keep_old)
        session.release()
        files.close(plan.data)
        files.remove(path + ".open")
        files.replace(path + ".new", path)
        files.replace(path + ".idx.new", path + ".idx")
        if keep_old:
            files.replace(path + ".old.new", path + ".old")
    except OSError as e:
        session.release()
        session.load()
        raise files.wrap(e, path)
    session.store.changed()
    session.load()


def _room(session, size, records):
    # Raises FlashFull unless a pair of this size fits beside the old one.
    block = session.store.block
    free = session.store.free_blocks()
    if free is not None:
        need = (size // block + 1) + ((8 + 10 * records) // block + 1) + 2
        if need > free:
            raise FlashFull(
                "There is no room to tidy this session ({} needed, {} free): /session delete one"
                " you do not need{}.".format(
                    _kb(need * block),
                    _kb(free * block),
                    session.store.rare("largest", session.name),
                )
            )


def tidy(session):
    """Bring a session that is over the limit below it; called after a completed turn.

    Compaction, then thinning, then (`when_full`) trim or block. Never raises for lack of room: the
    session stays as it is and a notice tells.
    """
    limit = session.store.limit
    before = session.size
    fits = False
    try:
        with open(session.path, "rb") as data:
            plan = _Plan(session, data)
            plan.analyse()
            size = plan.fit(limit)
            fits = size <= limit
            if fits:
                _room(session, size, plan.count)
                _rewrite(plan)
        if fits:
            if session.size < before:
                session.notice(
                    "Old tool records of this session were removed to save room ({} -> {}); your"
                    " messages and the answers are all kept.".format(
                        _kb(before), _kb(session.size)
                    )
                )
        elif session.store.when_full == "trim":
            trim(session)
        else:
            block(session)
    except (OSError, StorageError) as e:
        if not session.told:
            session.told = True
            session.notice(str(e if isinstance(e, StorageError) else files.wrap(e, session.path)))


def block(session):
    """Refuse new records from now on; data and idx are not touched (SPEC-session §10)."""
    session.blocked = True
    session.notice(session.blocked_text())
    try:
        open(session.path + ".blocked", "wb").close()
    except OSError:
        session.store.errors += 1


def _trim_point(plan, target):
    # First record of the oldest turn from which on at most `target` bytes are left; the newest
    # stays.
    turns = 0
    point = 0
    for i in range(1, plan.count):
        offset, _, rtype, _ = plan.index.get(i)
        if rtype == USER:
            if plan.session.size - plan.index.get(point)[0] <= target:
                break
            turns += 1
            point = i
    return point, turns


def trim(session):
    """Drop the oldest whole turns down to half the limit (SPEC-session §12.7); see Session.trim.

    If the newest turn alone is over the limit it is thinned, then loses its tool records, then
    goes.
    """
    limit = session.store.limit
    with open(session.path, "rb") as data:
        plan = _Plan(session, data)
        plan.first, turns = _trim_point(plan, limit // 2)
        plan.tools = (plan.first, plan.count)
        size = plan.fit(limit)
        if size > limit:
            plan.tools = (0, 0)
            size = plan.fit(limit)
        if size > limit:
            plan.first = plan.count
            turns += 1
            size = 0
        if size == session.size:
            return 0
        _room(session, size, plan.count)
        dropped = session.size - size
        old = max(0, files.size(session.path + ".old"))
        if old + dropped > limit:
            old = 0
        kept = True
        try:
            _room(session, size + old + dropped, plan.count + 512)
            _rewrite(plan, old + 1)
        except FlashFull:
            kept = False
        if not kept:
            _room(session, size, plan.count)
            with open(session.path, "rb") as again:
                plan.data = again
                _rewrite(plan)
    session.notice(
        "The oldest {} turn{} of this session {} ({}).".format(
            turns,
            "" if turns == 1 else "s",
            "moved to " + session.name + ".old"
            if kept
            else "are gone, there was no room to keep them",
            _kb(dropped),
        )
    )
    return turns
