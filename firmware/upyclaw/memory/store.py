"""The long-term memory: at most 128 items that stay true (SPEC-longterm, docs/memory.md).

    store = MemoryStore("/data/memory")
    store.store("User likes tea", "tea")        # -> ("new", "mem-1796026877-0001", ["tea"])
    for item in store.search("which tea?"): ...

Owns: the record file and the compact index of it. `load.py` reads it, `compact.py` rewrites it and
makes what is derived from it, `journal.py` writes the digest; they work on the store's own fields.
Must not know about models, sessions or channels. All calls are synchronous: one caller at a time
changes the store, no await in between (B37).
"""

from ..compat import const, ticks_diff, ticks_ms, unix_time
from ..storage.files import StorageError, close, size, wrap
from . import drop, record
from .journal import Journal
from .table import FRESH, PINNED, Table
from .text import hash30

LIMIT = const(128)
RECALL_LIMIT = const(8)
# The derived files are written when it was quiet for half an hour and there are many changes to
# show, or six hours have passed: a fact now and then must not cost a rewrite each.
_QUIET_MS = const(1800000)
_AGE_MS = const(21600000)
_MANY = const(16)
_CATALOGUE = const(2048)


class MemoryStore:
    """The items in folder `root` (made if missing).

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
        # Changes that the derived files do not show.
        self.stale = 0
        self.stale_at = self._flushed_at = ticks_ms()
        self._notices = []
        self._file = None
        self._catalogue = None

    # -- opening

    def open(self):
        """Read the folder, mending what is damaged. Called by itself on use; cheap when open."""
        if self.bytes < 0 or self.bytes != max(0, size(self.path)):
            from .load import load

            self.release()
            self._catalogue = None
            load(self)
            drop("load")
        return self

    def notice(self, sentence):
        """Keep a sentence for the user."""
        self._notices.append(sentence)

    def take_notices(self):
        """Sentences for the user about what was found damaged, each told once."""
        out = self._notices
        self._notices = []
        return out

    def now(self):
        """Seconds to write as a time: the clock's, or the newest known while it is unset (B08)."""
        now = self.clock()
        return now if now else self.table.newest(0)

    # -- looking

    def __len__(self):
        return self.open().table.live

    def reader(self):
        """The record file, open for reading until `release`; always seek before you read.

        One handle for all: a generator that is left half-way must not take an open file with it.
        """
        if self._file is None:
            try:
                self._file = open(self.path, "rb")
            except OSError as e:
                raise wrap(e, self.path)
        return self._file

    def release(self):
        """Close the record file: before it is changed, and when it will not be needed for long."""
        if self._file is not None:
            close(self._file)
            self._file = None

    def lines(self, slots):
        """Yield (slot, memoryview of its line) for `slots`; a view is valid until the next one."""
        table = self.table
        buf = bytearray(1024)
        for i in slots:
            n = table.length[i]
            if n > len(buf):
                buf = bytearray(n)
            view = memoryview(buf)[:n]
            self._read(i, view)
            yield i, view

    def _read(self, slot, view):
        try:
            f = self.reader()
            f.seek(self.table.offset[slot])
            f.readinto(view)
        except OSError as e:
            self.release()
            raise wrap(e, self.path)

    def line(self, slot):
        """The line of the item in `slot`."""
        line = bytearray(self.table.length[slot])
        self._read(slot, line)
        return line

    def item(self, slot):
        """The item in `slot` as a dict, its counts up to date."""
        table = self.table
        item = record.from_line(self.line(slot))
        if item is None:
            raise StorageError("memory_records.jsonl changed under us: restart the board.")
        item["access_count"] = table.count[slot]
        item["updated_at"] = max(item["updated_at"], table.updated[slot])
        item["summary_ids"] = [i for i in table.labels[slot * 3 : slot * 3 + 3] if i]
        item["pinned"] = table.flags[slot] & PINNED != 0
        return item

    def text_of(self, slot, key):
        """One text field (`b"content"`, `b"tags"`, `b"keywords"`) of the item in `slot`."""
        return record.field(self.line(slot), key)

    def id_of(self, slot):
        """The id of the item in `slot`."""
        line = bytearray(min(64, self.table.length[slot]))
        self._read(slot, line)
        return record.peek(line, b"id") or self.text_of(slot, b"id")

    def find(self, id):
        """Slot of the item with this id, -1 if there is none."""
        table = self.open().table
        h = hash30(id)
        for i in range(table.n):
            if table.id_hash[i] == h and table.is_live(i) and self.id_of(i) == id:
                return i
        return -1

    def get(self, id):
        """The item with this id as a dict, or None."""
        slot = self.find(id)
        return None if slot < 0 else self.item(slot)

    def slots(self, chosen=None):
        """The slots of all items as an array, hottest first (SPEC-longterm §4)."""
        self.open()
        return self.table.ranked(self.clock(), self.id_of, chosen)

    def items(self):
        """Yield all items as dicts, hottest first."""
        for slot in self.slots():
            yield self.item(slot)

    def labels(self):
        """Yield (id, label, number of items) of the catalogue, oldest label first."""
        table = self.open().table
        refs, first = table.label_uses()
        seen = -1
        names: list[str] = []
        for label_id in sorted(table.label_id):
            k = table.label_at(label_id)
            if refs[k]:
                if first[k] != seen:
                    seen = first[k]
                    names = record.labels_of(self.text_of(seen, b"tags"))
                for name in names:
                    if hash30(name) == table.label_hash[k]:
                        yield label_id, name, refs[k]
                        break

    def catalogue(self):
        """Yield the label list for a prompt: `- <label>` lines, oldest first, at most 2,048 bytes.

        If there are more, those of the hottest items are shown. Kept until the next change,
        because it is sent with every turn.
        """
        self.open()
        if self._catalogue is None:
            self._catalogue = self._list_labels()
        yield self._catalogue or b"(none)\n"

    def _list_labels(self):
        names = [(label_id, label) for label_id, label, _ in self.labels()]
        room = _CATALOGUE - sum([len(label.encode()) + 3 for _, label in names])
        more = 0
        if room < 0:
            # Leave out from the cold end, and say so.
            last: dict[int, int] = {}
            for rank, slot in enumerate(self.slots()):
                for label_id in self.table.labels[slot * 3 : slot * 3 + 3]:
                    last.setdefault(label_id, rank)
            for entry in sorted(names, key=lambda e: -last.get(e[0], 0)):
                if room >= 24:
                    break
                names.remove(entry)
                room += len(entry[1].encode()) + 3
                more += 1
        out = "".join(["- {}\n".format(label) for _, label in names])
        return (out + ("(and {} more)\n".format(more) if more else "")).encode()

    def recall(self, labels, limit=RECALL_LIMIT):
        """Slots of the hottest items that carry one of `labels` (all items if none is given).

        Unknown labels are ignored unless all are. Each hit counts as one access.
        """
        table = self.open().table
        ids = [i for i in [table.find_label(hash30(label)) for label in labels] if i]
        if labels and not ids:
            return []
        order = self.slots(lambda i: not ids or any([table.has_label(i, k) for k in ids]))
        out = list(order[: limit or RECALL_LIMIT])
        for slot in out:
            self.touch(slot)
        return out

    def search(self, query, limit=RECALL_LIMIT, count=True):
        """Slots of the items that fit `query` best by words (recall.py). Hits count as access."""
        from .recall import search

        out = [slot for slot, _ in search(self.open(), query, limit)]
        if count:
            for slot in out:
                self.touch(slot)
        return out

    def touch(self, slot, access=True):
        """The item was recalled (or restated): newer, and hotter by one access. Costs no erase."""
        table = self.table
        if self.readonly:
            return
        now = self.clock()
        if access and table.count[slot] < 65535:
            table.count[slot] += 1
            if table.pending[slot] < 255:
                table.pending[slot] += 1
        if now > table.updated[slot]:
            table.updated[slot] = now
            table.flags[slot] |= FRESH
        self.journal.touched()

    # -- changing (change.py, loaded for it)

    def store(self, content, tags="", keywords="", source="manual", memory_id=""):
        """Store a fact. Returns (how, id, labels); it is on flash when this returns.

        how: "new"; "refined" (an item said less and now says this); "same" (known: only
        refreshed). An existing `memory_id` is updated. Texts are shortened to the field limits.
        ValueError if `content` is empty.
        """
        from .change import store

        out = store(self, content, tags, keywords, source, memory_id)
        drop("change")
        return out

    def update(self, id, content="", tags="", keywords="", source=""):
        """Change an item; empty fields stay. The id and the counts stay too.

        Returns (changed, labels), or None if there is no such item. Another item that says exactly
        the new content is joined with this one.
        """
        from .change import update

        out = update(self, id, content, tags, keywords, source)
        drop("change")
        return out

    def pin(self, id, on=True):
        """Pin an item (never evicted) or let it go. False: no such item, or too many pins."""
        from .change import pin

        out = pin(self, id, on)
        drop("change")
        return out

    def forget(self, id):
        """Forget an item: gone from the records, the index and MEMORY.md when this returns.

        Returns its labels, or None if there is no such item. The digest keeps the id alone (B25).
        """
        from .change import forget

        out = forget(self, id)
        drop("change")
        return out

    def related(self, content, but=-1):
        """(relation, slot) of the stored item nearest to `content` by the string rule."""
        from .change import related

        return related(self.open(), content, but)

    def changed(self):
        """The records changed: the derived files and the label list are old now."""
        self.stale += 1
        self.stale_at = ticks_ms()
        self._catalogue = None

    def idle(self):
        """Bring the derived files up to date if that is due. Cheap otherwise."""
        if self.bytes >= 0 and not self.readonly:
            self.journal.idle()
            now = ticks_ms()
            if (
                self.stale
                and ticks_diff(now, self.stale_at) > _QUIET_MS
                and (self.stale >= _MANY or ticks_diff(now, self._flushed_at) > _AGE_MS)
            ):
                self.flush()

    def flush(self):
        """Bring everything on flash up to date: digest, memory_index.json, MEMORY.md."""
        self.open()
        if not self.readonly:
            from .derived import write_derived

            self.journal.flush()
            write_derived(self)
            self.stale = 0
            self._flushed_at = ticks_ms()
            drop("derived")
