"""The files of one session as they are on flash: state, reading, and recovery on open.

Owns: what is known of `<name>.log`, `<name>.log.open` and `<name>.log.idx`, and reading records.
What needs mending is mended by `recover`. Must not append: that is session.py.
"""

from upyclaw.storage import files
from upyclaw.storage.codec import USER
from upyclaw.storage.files import StorageError
from upyclaw.storage.index import Index


class Pair:
    """Data and idx of one session, with the question that may wait in `.open`."""

    def __init__(self, store, sid, name):
        self.store = store
        self.sid = sid
        self.name = name
        self.path = store.root + "/" + name
        self.index = Index(self.path + ".idx")
        self.size = 0  # data bytes of the ended records
        self.durable = 0  # data bytes that a cut cannot take
        self.exists = False
        self.blocked = False
        self.stale = True  # load() did not come to its end
        self.waiting = 0  # JSON bytes of a USER record that lies in `.open` only
        self.waiting_at = 0  # where it begins in that file
        self.waiting_for = -1  # the data offset that it is meant for
        self.waiting_format = 1
        self.notices = []
        self.reader = None  # the data file or `.open` while somebody reads
        self.reader_waiting = False

    @property
    def count(self):
        """Number of records, those of the open turn included."""
        return len(self.index) + (1 if self.waiting else 0)

    def notice(self, sentence):
        """Keep a sentence for the user."""
        if sentence not in self.notices:
            self.notices.append(sentence)

    def take_notices(self):
        """Sentences for the user since the last call."""
        out = self.notices
        self.notices = []
        return out

    def entry(self, i):
        """(offset, bytes of JSON without LF, record type, backend format) of record `i`."""
        if self.waiting and i == len(self.index):
            return self.size, self.waiting, USER, self.waiting_format
        e = self.index.get(i)
        return e[0], e[1] - 1, e[2], e[3]

    def chunks(self, i, buf):
        """Iterate over memoryviews of `buf` (bytearray) that together are the JSON of record `i`.

        Each view is valid until the next. Records of the open turn can be read after `sync`.
        Raises IndexError, StorageError.
        """
        offset, n, _, _ = self.entry(i)
        waiting = offset + n > self.durable
        if waiting:
            # The question is in `.open` until the data file is committed.
            if offset != self.waiting_for:
                raise StorageError("Record {} is not written yet.".format(i))
            offset = self.waiting_at
        view = memoryview(buf)
        while n > 0:
            k = self.read_piece(waiting, offset, view[: min(n, len(view))])
            if not k:
                raise StorageError("{} has become shorter.".format(self.name))
            offset += k
            n -= k
            yield view[:k]

    def read_piece(self, waiting, offset, view):
        """Read into `view` from the data file or `.open`, which stays open for the next piece."""
        try:
            if self.reader and self.reader_waiting != waiting:
                self.close_reader()
            if not self.reader:
                self.reader = open(self.path + ".open" if waiting else self.path, "rb")
                self.reader_waiting = waiting
            self.reader.seek(offset)
            return self.reader.readinto(view)
        except OSError as e:
            raise files.wrap(e, self.path)

    def copy(self, source, target, n):
        """Copy `n` bytes between open files through the store's buffer. Raises OSError."""
        view = memoryview(self.store.buf)
        while n > 0:
            k = source.readinto(view[: min(n, len(view))])
            if not k:
                raise OSError("file is too short")
            target.write(view[:k])
            n -= k

    def close_reader(self):
        """Close the file that reading left open: it goes on showing what was there when it was
        opened."""
        files.close(self.reader)
        self.reader = None

    def load(self):
        """Read the state from flash, mending what needs it.

        Raises OSError, StorageError, MemoryError; the state is `stale` then.
        """
        self.stale = True
        path = self.path
        for end in (".new", ".idx.new", ".old.new"):
            if files.size(path + end) >= 0:
                from upyclaw.storage import recover

                recover.settle(path)
                break
        n = files.size(path)
        self.exists = n >= 0
        self.size = self.durable = max(n, 0)
        self.waiting = 0
        self.blocked = files.size(path + ".blocked") >= 0
        if self.blocked and self.size <= self.store.limit:
            files.remove(path + ".blocked")
            self.blocked = False
        data = open(path, "rb") if self.exists else None
        try:
            if not self.index.check(data, self.size):
                from upyclaw.storage import recover

                recover.set_aside_index(self)
            self.catch_up(data)
        finally:
            files.close(data)
        self.load_open()
        self.stale = False

    def catch_up(self, data):
        """Index the lines that the idx does not know; mend the last one if it has no LF."""
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

    def load_open(self):
        """Find out if the record in `.open` still waits for its place in the data."""
        found = self.read_open()
        if not found or found[0] < self.size:
            return
        if found[0] > self.size:
            from upyclaw.storage import recover

            if not recover.user_is_missing(self, found[1], found[2]):
                return
        self.waiting_at, self.waiting = found[1], found[2]
        self.waiting_for = self.size
        self.waiting_format = self.index.last_format()
