"""The files of one session as they are on flash: state and reading.

Owns: what is known of `<name>.log`, `<name>.log.open` and `<name>.log.idx`, and reading records.
How that is found out on open is in opening.py. Must not append: that is session.py.
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
        from upyclaw.storage import opening

        self.stale = True
        opening.load(self)
        self.stale = False
