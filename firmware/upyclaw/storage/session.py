"""One session: append a turn, read records, keep data and idx in step.

Owns: `<name>.log`, `<name>.log.open` and, through Index, `<name>.log.idx`. Compaction, trimming
and the
mending of damage live in modules of their own, imported when they are needed. Must not know
providers.

A turn on flash (SPEC-session §6 gives the order, B18 the promise):
  add_user   the record goes into `<name>.log.open`: a line with the data offset where it belongs,
             then
             the record and LF. LittleFS keeps a file of up to ~250 bytes inline, so this costs no
             erase.
  begin      opens the data file and writes the USER record there first, then the new record.
  sync       commits the data file (once for each tool round).
  finish     commits it for good. `.open` stays: the data file is longer than its offset, so it is
             stale.
The idx is written when it lags by 16 turns or 7,000 bytes, and on close(). After a power cut the
lag is derived from the data again, and an `.open` at whose offset the data ends is completed.
"""

from upyclaw.storage import files
from upyclaw.storage.codec import FINAL, USER
from upyclaw.storage.files import SessionBlocked, StorageError
from upyclaw.storage.index import Index

# Lag of the idx at which it is written; opening a session reads the idx, this lag and 16 line
# ends.
_LAG_TURNS = 16
_LAG_BYTES = 7000
# What stands where a record broke off (a reset or an error in mid-write): there is no truncate
# (B48).
CUT_OFF = b'{"role":"assistant","content":"[cut off]"}'


class Session:
    """A session of a SessionStore; get it from `store.open(sid)`.

    `sid`, `name` (file name), `size` (bytes of data), `blocked`. Methods that write raise
    FlashFull or
    another StorageError; what was durable before stays readable then. Not for two tasks at once:
    turns
    of one session come one after the other (B38).
    """

    def __init__(self, store, sid, name):
        self.store = store
        self.sid = sid
        self.name = name
        self.path = store.root + "/" + name
        self.index = Index(self.path + ".idx")
        self.size = 0
        self.blocked = False
        self.claimed = False
        self.told = False  # that there is no room to tidy
        self._notices = []
        self._durable = 0  # data bytes that a cut cannot take
        self._exists = False
        self._user = 0  # JSON bytes of a USER record that lies in `.open` only
        self._user_at = 0  # where it begins in that file
        self._user_format = 1
        self._out = None  # the data file while a turn writes
        self._in = None  # that file or `.open` while somebody reads
        self._in_pending = False
        self._rec = None  # (type, format) of the record being written
        self._pos = 0  # bytes of it
        self._hole = 0  # bytes behind `size` left by a dropped record
        self._turns = 0
        self._in_turn = False
        self.load()

    # ---- what is there

    @property
    def count(self):
        """Number of records, those of the open turn included."""
        return len(self.index) + (1 if self._user else 0)

    def notice(self, sentence):
        """Keep a sentence for the user."""
        if sentence not in self._notices:
            self._notices.append(sentence)

    def take_notices(self):
        """Sentences for the user since the last call."""
        out = self._notices
        self._notices = []
        return out

    def entry(self, i):
        """(offset, bytes of JSON without LF, record type, backend format) of record `i`."""
        if self._user and i == len(self.index):
            return self.size, self._user, USER, self._user_format
        e = self.index.get(i)
        return e[0], e[1] - 1, e[2], e[3]

    def chunks(self, i, buf):
        """Iterate over memoryviews of `buf` (bytearray) that together are the JSON of record `i`.

        Each view is valid until the next. Records of the open turn can be read after `sync`.
        Raises IndexError, StorageError.
        """
        pending = self._user and i == len(self.index)
        offset, n, _, _ = self.entry(i)
        if pending:
            offset = self._user_at
        elif offset + n > self._durable:
            raise StorageError("Record {} is not written yet.".format(i))
        view = memoryview(buf)
        while n > 0:
            k = self._read(pending, offset, view[: min(n, len(view))])
            if not k:
                raise StorageError("{} has become shorter.".format(self.name))
            offset += k
            n -= k
            yield view[:k]

    def _read(self, pending, offset, view):
        # The handle stays open for the next piece; it is one or the other of the two files.
        try:
            if self._in and self._in_pending != pending:
                self._close_in()
            if not self._in:
                self._in = open(self.path + ".open" if pending else self.path, "rb")
                self._in_pending = pending
            self._in.seek(offset)
            return self._in.readinto(view)
        except OSError as e:
            raise files.wrap(e, self.path)

    # ---- a turn

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
        self.store.need(len(record))
        try:
            if max(files.size(self.path), 0) != self.size:
                # Put there by someone else, over the REPL for instance.
                self.release()
                self.load()
            if not self.claimed:
                self.store.claim(self)
            if self._user:
                self._open_out()
                self._close_out()
            head = b"%d\n" % self.size
            with open(self.path + ".open", "wb") as f:
                f.write(head)
                f.write(record)
                f.write(b"\n")
        except OSError as e:
            self._fail(e)
        self._close_in()
        self._user = len(record)
        self._user_at = len(head)
        self._user_format = fmt
        self._in_turn = True

    def begin(self, rtype, fmt=1):
        """Start a record of the open turn. `write` its JSON in pieces, then `end`."""
        if self._rec:
            raise StorageError("Two records were begun at once in {}.".format(self.name))
        self.store.need(self.store.block)
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
        self._close_in()
        try:
            self._fill_hole()
            if self._out:
                self._out.flush()
            self._durable = self.size
        except OSError as e:
            self._fail(e)

    def finish(self, completed=True):
        """The turn is over: everything is durable. `completed`: compaction may run (SPEC-session
        §9).

        What happened goes to `take_notices`. Raises FlashFull when the end of the turn could not
        be
        saved; the user's record stays durable.
        """
        self._in_turn = False
        self.drop()
        try:
            if self._user:
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
        if self._user and not self._in_turn:
            try:
                self._open_out()
                self._close_out()
            except OSError:
                # No room: it stays where it is, and is read from there.
                self.release()
                self.load()

    def close(self):
        """End an open turn and complete the idx: before a switch, an export, a shutdown."""
        if self._in_turn or self._user or self._out:
            self.finish(False)
        self._store_index()
        self._close_in()
        self.index.release()

    def tidy(self):
        """Compact if the data is over the limit; thin, trim or block when that is not enough."""
        from upyclaw.storage import compact

        self._close_in()
        compact.tidy(self)
        self.store.forget_code()

    def trim(self):
        """Drop the oldest whole turns down to half the limit; unblocks. Returns the turns dropped.

        The dropped turns are kept in `<name>.log.old` if there is room. Raises FlashFull,
        StorageError.
        """
        from upyclaw.storage import compact

        if self._in_turn or self._user:
            self.finish(False)
        self._close_in()
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
            self._close_in()
            self._out = open(self.path, "r+b" if self._exists else "wb")
            self._exists = True
            if self._out.seek(0, 2) != self.size:
                raise OSError("changed by someone else")
        if self._user:
            with open(self.path + ".open", "rb") as f:
                f.seek(self._user_at)
                self.copy(f, self._out, self._user)
            self._out.write(b"\n")
            self.index.add(self.size, self._user + 1, USER, self._user_format)
            self.size += self._user + 1
            self._user = 0

    def copy(self, source, target, n):
        """Copy `n` bytes between open files through the store's buffer. Raises OSError."""
        view = memoryview(self.store.buf)
        while n > 0:
            k = source.readinto(view[: min(n, len(view))])
            if not k:
                raise OSError("file is too short")
            target.write(view[:k])
            n -= k

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
        self._close_in()
        out = self._out
        self._out = None
        if out:
            out.close()
        self._durable = self.size

    def _close_in(self):
        files.close(self._in)
        self._in = None

    def _store_index(self):
        # A failure is no loss: the data tells it again.
        try:
            self.index.store()
            self._turns = 0
        except OSError as e:
            self.store.errors += 1
            self.notice(str(files.wrap(e, self.index.path)))
            self.load()

    def _fail(self, error):
        # An OSError while writing: back to what is on flash, then tell.
        self.store.errors += 1
        self.release()
        try:
            self.load()
        except (OSError, StorageError):
            pass
        raise files.wrap(error, self.path)

    def release(self):
        """Close every file; what was not committed is given up."""
        files.close(self._out)
        self._out = self._rec = None
        self._hole = 0
        self._close_in()
        self.index.release()

    def load(self):
        """Read the state from flash, mending what needs it. Raises OSError, StorageError,
        MemoryError."""
        path = self.path
        for end in (".new", ".idx.new", ".old.new"):
            if files.size(path + end) >= 0:
                from upyclaw.storage import recover

                recover.settle(path)
                break
        n = files.size(path)
        self._exists = n >= 0
        self.size = self._durable = max(n, 0)
        self._user = 0
        self.blocked = files.size(path + ".blocked") >= 0
        if self.blocked and self.size <= self.store.limit:
            files.remove(path + ".blocked")
            self.blocked = False
        data = open(path, "rb") if self._exists else None
        try:
            if not self.index.check(data, self.size):
                from upyclaw.storage import recover

                recover.set_aside_index(self)
            self._catch_up(data)
        finally:
            files.close(data)
        self._load_open()

    def _catch_up(self, data):
        # Index the lines that the idx does not know.
        start = self.index.end()
        if start >= self.size:
            return
        from upyclaw.storage.scan import scan_lines

        buf = self.store.buf
        fmt = self.index.last_format()
        try:
            end, bad, whole = scan_lines(data, start, self.size, fmt, self.index.spill, buf)
            if self.index.spilled:
                self.index.store()
        except OSError:
            # No room for the idx: it stays in RAM this time.
            self.index.check(data, self.size)
            start = self.index.end()
            end, bad, whole = scan_lines(data, start, self.size, fmt, self.index.add, buf)
        if bad:
            self.notice(
                "{} line{} of {} cannot be read; kept in the file, left out of what the model"
                " sees.".format(bad, "" if bad == 1 else "s", self.name)
            )
        if end < self.size:
            from upyclaw.storage import recover

            files.close(data)
            recover.mend_tail(self, end, whole)
            self.load()

    def read_open(self):
        """(data offset, first byte, bytes) of the record in `.open`; None if it holds none."""
        try:
            f = open(self.path + ".open", "rb")
        except OSError:
            return None
        with f:
            head = f.read(12)
            at = head.find(b"\n") + 1
            n = f.seek(0, 2) - at - 1
            if at < 2 or n < 2 or not head[: at - 1].isdigit():
                return None
            f.seek(at + n)
            return (int(head[: at - 1]), at, n) if f.read(1) == b"\n" else None

    def _load_open(self):
        found = self.read_open()
        if not found or found[0] < self.size:
            return
        if found[0] > self.size:
            from upyclaw.storage import recover

            if not recover.user_is_missing(self, found[1], found[2]):
                return
        self._user_at, self._user = found[1], found[2]
        self._user_format = self.index.last_format()


def _one_line(data):
    if not isinstance(data, bytes):
        data = bytes(data)
    return data.replace(b"\n", b" ") if b"\n" in data else data
