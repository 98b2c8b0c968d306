"""The idx of one session: its file and the entries that are not in it yet.

Owns: `<name>.log.idx` (SPEC-session §3) and the entries of the newest records in RAM. The file may
lag behind the data: it is an accelerator, and what is missing is derived from the data again. Must
not touch the data file, except reading the line ends it is checked against.

Heap: a window of 24 entries, 10 bytes for each entry that is not in the file.
"""

import struct

from upyclaw.storage import files
from upyclaw.storage.codec import ENTRY, ENTRY_FORMAT, IDX_HEADER

# Entries that are read at once.
_WINDOW = 24
# Line ends that a check looks at.
_SAMPLES = 16
# Entries in RAM at which a scan writes them out.
_SPILL = 48


class Index:
    """Entries (offset, length with LF, record type, backend format) of one session, by number."""

    def __init__(self, path):
        self.path = path
        self.stored = 0
        self._tail = bytearray()
        self._file = None
        self._out = None
        self._window = bytearray(_WINDOW * ENTRY)
        self._first = -1
        self.short = False  # the last check found entries behind the end of the data

    def __len__(self):
        return self.stored + len(self._tail) // ENTRY

    @property
    def spilled(self):
        """True after `spill` wrote something that only `store` commits."""
        return self._out is not None

    def get(self, i):
        """Entry `i`; raises IndexError, StorageError if the file cannot be read."""
        if i < 0 or i >= len(self):
            raise IndexError("no record {}".format(i))
        if i >= self.stored:
            return struct.unpack_from(ENTRY_FORMAT, self._tail, (i - self.stored) * ENTRY)
        first = i - i % _WINDOW
        if first != self._first:
            self._load(first)
        return struct.unpack_from(ENTRY_FORMAT, self._window, (i - first) * ENTRY)

    def _load(self, first):
        self._first = -1
        try:
            if not self._file:
                self._file = open(self.path, "rb")
            self._file.seek(8 + first * ENTRY)
            n = self._file.readinto(self._window)
        except OSError as e:
            raise files.wrap(e, self.path)
        if n < min(_WINDOW, self.stored - first) * ENTRY:
            raise files.StorageError("{} has become shorter.".format(self.path))
        self._first = first

    def end(self):
        """Data offset behind the last entry."""
        if not len(self):
            return 0
        last = self.get(len(self) - 1)
        return last[0] + last[1]

    def last_format(self):
        """Backend format of the last entry; 1 (openai) if there is none."""
        return self.get(len(self) - 1)[3] if len(self) else 1

    def add(self, offset, length, rtype, fmt):
        """Append an entry in RAM; `store` writes it."""
        self._tail.extend(struct.pack(ENTRY_FORMAT, offset, length, rtype, fmt))

    def spill(self, offset, length, rtype, fmt):
        """`add` for long scans: writes when many entries wait; finish with `store`."""
        self.add(offset, length, rtype, fmt)
        if len(self._tail) >= _SPILL * ENTRY:
            self._write()

    def check(self, data, size):
        """Read the whole file and tell if it belongs to data file `data` (open, or None) of
        `size` bytes.

        True: entries are in order without gaps from byte 0, within the data, of known types and
        formats, and the line ends looked at (up to 16, the last always) are LF. A missing or empty
        file is an empty idx. False: it is damaged; the Index is empty then. Raises OSError when
        the flash does not read.
        """
        self.release()
        self.stored = 0
        self.short = False
        self._tail = bytearray()
        length = files.size(self.path)
        if length <= 0:
            return True
        count = (length - 8) // ENTRY
        if length < 8 or (length - 8) % ENTRY:
            return False
        self._file = open(self.path, "rb")
        if self._file.read(8) != IDX_HEADER:
            self.release()
            return False
        end = 0
        step = max(1, count // _SAMPLES)
        for i in range(count):
            k = i % _WINDOW
            if k == 0:
                self._file.readinto(self._window)
            offset, n, rtype, fmt = struct.unpack_from(ENTRY_FORMAT, self._window, k * ENTRY)
            if offset != end or n == 0 or not 1 <= rtype <= 4 or fmt > 3:
                break
            if n > size - end:
                self.short = True
                break
            end += n
            if i % step == 0 or i == count - 1:
                data.seek(end - 1)
                if data.read(1) != b"\n":
                    break
        else:
            self.stored = count
            self._first = -1
            return True
        self.release()
        return False

    def _write(self):
        if not self._out:
            fresh = files.size(self.path) <= 0
            self.release()
            self._out = open(self.path, "ab")
            if fresh:
                self._out.write(IDX_HEADER)
        self._out.write(self._tail)
        self.stored += len(self._tail) // ENTRY
        self._tail = bytearray()

    def store(self):
        """Bring the file up to the last entry. Raises OSError; the Index must be checked again
        then."""
        if self._tail:
            self._write()
        if self._out:
            out = self._out
            self._out = None
            self._first = -1
            out.close()

    def release(self):
        """Close the files; entries that `store` did not write stay in RAM."""
        files.close(self._file)
        files.close(self._out)
        self._file = self._out = None
        self._first = -1
