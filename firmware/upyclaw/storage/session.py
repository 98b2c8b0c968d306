"""One session: append a turn, keep data and idx in step.

Owns: writing `<name>.log`, `<name>.log.open` and, through Index, `<name>.log.idx`. Reading and
recovery are in pair.py; compaction and trimming in modules that are imported when they are
needed. Must not know providers.

A turn on flash (SPEC-session §6 gives the order, B18 the promise):
  add_user  the record goes into `<name>.log.open`: a line with the data offset where it belongs,
            then the record and LF. LittleFS keeps up to ~250 bytes inline: that costs no erase.
  begin     opens the data file and writes the USER record there first, then the new record.
  sync      commits the data file (once for each tool round).
  finish    commits it for good. `.open` stays: the data is longer than its offset, so it is stale.
The idx is written when it lags by 16 turns or 7,000 bytes, and on close(). After a power cut the
lag is derived from the data again, and an `.open` at whose offset the data ends is completed.
"""

from upyclaw.storage import files
from upyclaw.storage.codec import CUT_OFF, FINAL, USER
from upyclaw.storage.files import SessionBlocked, StorageError
from upyclaw.storage.pair import Pair

# Lag of the idx at which it is written. Opening reads the idx, this lag and 16 line ends.
_LAG_TURNS = 16
_LAG_BYTES = 7000


class Session(Pair):
    """A session of a SessionStore; get it from `store.open(sid)`.

    `sid`, `name` (file name), `size` (bytes of data), `blocked`, `count`, `entry`, `chunks`.
    Methods that write raise FlashFull or another StorageError; what was durable before stays
    readable then. Not for two tasks at once: turns of one session come one after the other (B38).
    """

    def __init__(self, store, sid, name):
        super().__init__(store, sid, name)
        self.claimed = False
        self.told = False  # that there is no room to tidy
        self._out = files.no_file()  # the data file while a turn writes
        self._rec = None  # (type, format) of the record being written
        self._pos = 0  # bytes of it
        self._hole = 0  # bytes behind `size` left by a dropped record
        self._turns = 0
        self._in_turn = False
        self.load()

    def add_user(self, record, fmt=1):
        """Append a whole USER record (bytes of JSON, no LF); it is durable on return (B18)."""
        if self.blocked:
            raise SessionBlocked(self.blocked_text())
        if self._in_turn:
            self.begin(USER, fmt)
            self.write(record)
            self.end()
            self.sync()
            return
        record = _one_line(record)
        self.store.need(len(record), self.name)
        try:
            if self.stale or max(files.size(self.path), 0) != self.size:
                # Put there by someone else, over the REPL for instance.
                self.release()
                self.load()
            if not self.claimed:
                self.store.rare("claim", self)
            if self.waiting:
                self._open_out()
                self._close_out()
            head = b"%d\n" % self.size
            with open(self.path + ".open", "wb") as f:
                f.write(head)
                f.write(record)
                f.write(b"\n")
        except OSError as e:
            self._fail(e)
        self.close_reader()
        self.waiting = len(record)
        self.waiting_at = len(head)
        self.waiting_for = self.size
        self.waiting_format = fmt
        self._in_turn = True

    def begin(self, rtype, fmt=1):
        """Start a record of the open turn. `write` its JSON in pieces, then `end`."""
        if self._rec:
            raise StorageError("Two records were begun at once in {}.".format(self.name))
        self.store.need(self.store.block, self.name)
        try:
            self._open_out()
        except OSError as e:
            self._fail(e)
        self._in_turn = True
        self._rec = (rtype, fmt)
        self._pos = 0

    def write(self, data):
        """Append bytes-like `data` to the record. Line ends in it become blanks."""
        if not self._rec:
            raise StorageError("No record of {} is begun.".format(self.name))
        data = _one_line(data)
        try:
            self._out.write(data)
        except OSError as e:
            self._fail(e)
        self._pos += len(data)

    def end(self, rtype=None):
        """The record is complete; `rtype` replaces the type given to `begin`."""
        if not self._rec:
            raise StorageError("No record of {} is begun.".format(self.name))
        try:
            if self._hole > self._pos:
                self._pad(self._hole - self._pos)
            self._out.write(b"\n")
        except OSError as e:
            self._fail(e)
        n = self._pos + 1
        self.index.add(self.size, n, rtype or self._rec[0], self._rec[1])
        self.size += n
        self._rec = None
        self._hole = 0

    def drop(self):
        """Forget the record begun: its bytes are written over by the next record (or a short
        note)."""
        if self._rec:
            self._hole = max(self._hole, self._pos)
            self._rec = None
            try:
                self._out.seek(self.size)
            except OSError as e:
                self._fail(e)

    def sync(self):
        """Make the ended records of the turn durable and readable."""
        if self._rec:
            raise StorageError("A record of {} is not ended.".format(self.name))
        self.close_reader()
        try:
            self._fill_hole()
            if self._out:
                self._out.flush()
            self.durable = self.size
        except OSError as e:
            self._fail(e)

    def finish(self, completed=True):
        """The turn is over: everything is durable. `completed`: compaction may run (SPEC-session
        §9).

        What happened goes to `take_notices`. Raises FlashFull when the end of the turn could not
        be saved; the user's record stays durable.
        """
        self._in_turn = False
        self.drop()
        try:
            if self.waiting:
                self._open_out()
            self._fill_hole()
            self._close_out()
        except OSError as e:
            self._fail(e)
        self._turns += 1
        if self._turns >= _LAG_TURNS or self.size - self._indexed() >= _LAG_BYTES:
            self._store_index()
        if completed and self.size > self.store.limit:
            self.tidy()

    def settle_user(self):
        """Append the USER record of a turn that a cut ended, as an unanswered one (called on
        open)."""
        if self.waiting and not self._in_turn:
            try:
                self._open_out()
                self._close_out()
            except OSError:
                # No room: it stays where it is, and is read from there.
                self.release()
                self.load()

    def close(self):
        """End an open turn and complete the idx: before a switch, an export, a shutdown."""
        if self._in_turn or self.waiting or self._out:
            self.finish(False)
        self._store_index()
        self.close_reader()
        self.index.release()

    def tidy(self):
        """Compact if the data is over the limit; thin, trim or block when that is not enough."""
        from upyclaw.storage import compact

        self.close_reader()
        compact.tidy(self)
        self.store.forget_code()

    def trim(self):
        """Drop the oldest whole turns down to half the limit; unblocks. Returns the turns dropped.

        The dropped turns are kept in `<name>.log.old` if there is room. Raises FlashFull,
        StorageError.
        """
        from upyclaw.storage import compact

        if self._in_turn or self.waiting:
            self.finish(False)
        self.close_reader()
        dropped = compact.trim(self)
        self.store.forget_code()
        return dropped

    # ---- inside

    def _indexed(self):
        n = self.index.stored
        if not n:
            return 0
        e = self.index.get(n - 1)
        return e[0] + e[1]

    def blocked_text(self):
        return (
            "This session is full ({} KB): /session new starts another, /session trim drops its"
            " oldest turns, /session delete removes one.".format(self.size // 1024)
        )

    def _open_out(self):
        # The data file, positioned at its end, with the pending USER record written.
        if not self._out:
            self.close_reader()
            self._out = open(self.path, "r+b" if self.exists else "wb")
            self.exists = True
            if self._out.seek(0, 2) != self.size:
                raise OSError("changed by someone else")
        if self.waiting:
            with open(self.path + ".open", "rb") as f:
                f.seek(self.waiting_at)
                self.copy(f, self._out, self.waiting)
            self._out.write(b"\n")
            self.index.add(self.size, self.waiting + 1, USER, self.waiting_format)
            self.size += self.waiting + 1
            self.waiting = 0

    def _pad(self, n):
        while n > 0:
            k = min(n, 64)
            self._out.write(b" " * k)
            self._pos += k
            n -= k

    def _fill_hole(self):
        if self._hole:
            self._rec = (FINAL, 1)
            self._out.write(CUT_OFF)
            self._pos = len(CUT_OFF)
            self.end()

    def _close_out(self):
        # An open reader would go on seeing the file as it was.
        self.close_reader()
        out = self._out
        self._out = None
        if out:
            out.close()
        self.durable = self.size

    def _store_index(self):
        # A failure is no loss: the data tells it again.
        try:
            self.index.store()
            self._turns = 0
        except OSError as e:
            self.store.errors += 1
            self.notice(str(files.wrap(e, self.index.path)))
            self._reload()

    def _fail(self, error):
        # An OSError while writing: back to what is on flash, then tell.
        self.store.errors += 1
        self.release()
        self._reload()
        raise files.wrap(error, self.path)

    def _reload(self):
        # What fails here leaves the state stale; it is read again before the next turn.
        try:
            self.load()
        except (OSError, StorageError, MemoryError):
            self.index.release()

    def release(self):
        """Close every file; what was not committed is given up."""
        files.close(self._out)
        self._out = self._rec = None
        self._hole = 0
        self.close_reader()
        self.index.release()


def _one_line(data):
    if not isinstance(data, bytes):
        data = bytes(data)
    return data.replace(b"\n", b" ") if b"\n" in data else data
