"""The long-term memory: at most 128 items that stay true (SPEC-longterm, docs/memory.md).

    store = MemoryStore("/data/memory")
    store.store("User likes tea", "tea")        # -> ("new", "mem-1796026877-0001", ["tea"])
    for slot in store.search("which tea?"): print(store.item(slot))

Owns: what stays in RAM between turns, which is data and next to no code. What the data can do is
in core.py, storing.py, more.py, slots.py, rank.py and journal.py, loaded when it is asked for and
dropped by `sleep`. Must not know about models, sessions or channels. All calls are synchronous:
one caller at a time changes the store, no await in between (B37).
"""

from array import array

from ..compat import const, ticks_diff, ticks_ms, unix_time
from ..storage.files import close, size, wrap
from . import drop, drop_all

LIMIT = const(128)
# The derived files are written when it was quiet for half an hour and there are many changes to
# show, or six hours have passed: a fact now and then must not cost a rewrite each.
_QUIET_MS = const(1800000)
_AGE_MS = const(21600000)
_MANY = const(16)


class Lazy:
    """Data with methods that are functions of modules, loaded when one is called."""

    def find_method(self, name):
        """The function of this name, which takes the object first; None if there is none."""
        raise NotImplementedError

    def __getattr__(self, name):
        function = self.find_method(name)
        if function is None:
            raise AttributeError(name)
        return lambda *args, **named: function(self, *args, **named)


class Table(Lazy):
    """The compact index: arrays with one slot an item, and the labels. Methods: slots.py, rank.py.

    32 bytes an item and 6 a label: 128 items with 384 labels take under 8 KB. No text: it is read
    from the records when it is needed.
    """

    def __init__(self):
        self.n = 0
        self.live = 0
        self.id_hash = array("I")
        self.offset = array("I")
        self.length = array("H")
        self.updated = array("I")
        self.count = array("H")
        self.key = array("I")
        self.sig = array("I")
        self.pending = bytearray()
        self.flags = bytearray()
        # Three label ids a slot, 0 = none.
        self.labels = array("H")
        self.label_id = array("H")
        self.label_hash = array("I")
        self.next_label = 1

    def find_method(self, name):
        """slots.py, rank.py"""
        from .slots import METHODS

        if name not in METHODS:
            from .rank import METHODS as MORE

            return MORE.get(name)
        return METHODS[name]


class Journal(Lazy):
    """What waits for the digest of `store`. Methods: journal.py."""

    def __init__(self, store):
        self.store = store
        self.path = store.root + "/memory_digest.log"
        # Lines of changes, and the number of accesses in the table, that are not on flash.
        self.waiting = bytearray()
        self.touches = 0
        self.since = ticks_ms()
        # Bytes of the file, as last seen.
        self.bytes = 0
        # Where the accesses begin that the records do not hold yet.
        self.mark = 0

    def find_method(self, name):
        """journal.py"""
        from .journal import METHODS

        return METHODS.get(name)


class MemoryStore(Lazy):
    """The items in folder `root` (made if missing). Methods: also core.py, more.py and others.

    `clock` returns Unix seconds, 0 for unknown. `readonly` never writes: for looking at pulled
    files. Methods raise StorageError (FlashFull on a full flash: what was there stays whole) and
    ValueError for texts that hold nothing.
    """

    def __init__(self, root, clock=unix_time, limit=LIMIT, readonly=False):
        self.root = root
        self.clock = clock
        self.limit = limit
        self.readonly = readonly
        # Seconds east of UTC, for the dates in MEMORY.md.
        self.zone = 0
        self.table = Table()
        self.journal = Journal(self)
        self.path = root + "/memory_records.jsonl"
        # Called with the content of an item that was forgotten.
        self.on_forget = None
        # Bytes of the record file as we left it, -1 = must be read again; of these: of dead lines.
        self.bytes = -1
        self.waste = 0
        self.torn = False
        # Highest (seconds, number) an id was made of; ids never repeat (B08).
        self.last_id = (0, 0)
        # Changes that the derived files do not show; when the last was, and the last write of
        # them.
        self.stale = 0
        self.stale_at = self.flushed_at = ticks_ms()
        # The label list as it is sent with each turn; None: make it.
        self.label_list = None
        # The record file, while it is open for reading.
        self.file = None
        self.notices = []

    def find_method(self, name):
        """core.py, more.py, seek.py, storing.py, forgetting.py"""
        if name == "forget":
            from .forgetting import forget

            return forget
        if name == "search":
            from .seek import search

            return search
        if name == "store" or name == "update":
            from .storing import METHODS as CHANGES

            return CHANGES[name]
        from .core import METHODS

        if name not in METHODS:
            from .more import METHODS as MORE

            return MORE.get(name)
        return METHODS[name]

    def open(self):
        """Read the folder, mending what is damaged. Called by itself on use; cheap when open."""
        if self.bytes < 0 or self.bytes != max(0, size(self.path)):
            from .load import load

            self.release()
            self.label_list = None
            load(self)
            for name in ("load", "replay", "keys", "norm"):
                drop(name)
        return self

    def __len__(self):
        return self.open().table.live

    def notice(self, sentence):
        """Keep a sentence for the user."""
        self.notices.append(sentence)

    def take_notices(self):
        """Sentences for the user about what was found damaged, each told once."""
        out = self.notices
        self.notices = []
        return out

    def changed(self):
        """The records changed: the derived files and the label list are old now."""
        self.stale += 1
        self.stale_at = ticks_ms()
        self.label_list = None

    def read(self, slot, view):
        """Fill `view` from the line of the item in `slot`.

        One file handle for all, open until `release`: a generator that is left half-way must not
        take an open file with it.
        """
        try:
            if self.file is None:
                self.file = open(self.path, "rb")
            self.file.seek(self.table.offset[slot])
            self.file.readinto(view)
        except OSError as e:
            self.release()
            raise wrap(e, self.path)

    def release(self):
        """Close the record file: before it is changed, and when it will not be needed for long."""
        if self.file is not None:
            close(self.file)
            self.file = None

    def sleep(self):
        """Give back the RAM of everything but the data; the next call loads the code again."""
        self.release()
        drop_all(True)

    def idle(self):
        """Bring the derived files up to date if that is due. Cheap otherwise."""
        if self.bytes < 0 or self.readonly:
            return
        now = ticks_ms()
        quiet = ticks_diff(now, self.stale_at) > _QUIET_MS
        long_ago = ticks_diff(now, self.flushed_at) > _AGE_MS
        if self.stale and quiet and (long_ago or self.stale >= _MANY):
            self.flush()
            self.sleep()
        elif self.journal.touches and ticks_diff(now, self.journal.since) > _AGE_MS:
            self.journal.flush()
            self.sleep()
