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
from ..storage.files import StorageError, size, wrap
from . import drop, record
from .journal import Journal
from .table import FRESH, PINNED, Table
from .text import hash30

LIMIT = const(128)
RECALL_LIMIT = const(8)
# When the derived files are written: this long after the last change, or after so many changes.
_QUIET_MS = const(600000)
_MANY = const(48)


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
        self.stale_at = ticks_ms()
        self._notices = []

    # -- opening

    def open(self):
        """Read the folder, mending what is damaged. Called by itself on use; cheap when open."""
        if self.bytes < 0 or self.bytes != max(0, size(self.path)):
            from .load import load

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

    def lines(self, slots):
        """Yield (slot, memoryview of its line) for `slots`; a view is valid until the next one."""
        if not slots:
            return
        table = self.table
        buf = bytearray(1024)
        try:
            f = open(self.path, "rb")
        except OSError as e:
            raise wrap(e, self.path)
        try:
            for i in slots:
                n = table.length[i]
                if n > len(buf):
                    buf = bytearray(n)
                view = memoryview(buf)[:n]
                f.seek(table.offset[i])
                f.readinto(view)
                yield i, view
        except OSError as e:
            raise wrap(e, self.path)
        finally:
            f.close()

    def item(self, slot):
        """The item in `slot` as a dict, its counts up to date."""
        item = None
        for _, line in self.lines((slot,)):
            item = record.from_line(line)
        if item is None:
            raise StorageError("memory_records.jsonl changed under us: restart the board.")
        item["access_count"] = self.table.count[slot]
        item["updated_at"] = max(item["updated_at"], self.table.updated[slot])
        item["summary_ids"] = [i for i in self.table.labels[slot * 3 : slot * 3 + 3] if i]
        item["pinned"] = self.table.flags[slot] & PINNED != 0
        return item

    def id_of(self, slot):
        """The id of the item in `slot`."""
        for _, line in self.lines((slot,)):
            head = bytes(line[:64])
            if head.startswith(b'{"id":"'):
                end = head.find(b'"', 7)
                if end > 0 and head.find(b"\\", 7, end) < 0:
                    return head[7:end].decode()
            item = record.from_line(line)
            return item["id"] if item else ""

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
        """Yield the slots of all items, hottest first (SPEC-longterm §4)."""
        self.open()
        return self.table.ranked(self.clock(), self.id_of, chosen)

    def items(self):
        """Yield all items as dicts, hottest first."""
        for slot in self.slots():
            yield self.item(slot)

    def labels(self):
        """Yield (id, label, number of items) of the catalogue, oldest label first."""
        table = self.open().table
        for label_id in sorted(table.label_id):
            refs = table.refs(label_id)
            if refs:
                yield label_id, self.label_text(label_id), refs

    def label_text(self, label_id):
        """The label with this id, "" if no item carries it."""
        table = self.table
        wanted = table.label_hash[list(table.label_id).index(label_id)]
        for i in range(table.n):
            if table.is_live(i) and table.has_label(i, label_id):
                for label in record.labels_of(self.item(i)["tags"]):
                    if hash30(label) == wanted:
                        return label
        return ""

    def recall(self, labels, limit=RECALL_LIMIT):
        """Slots of the hottest items that carry one of `labels` (all items if none is given).

        Unknown labels are ignored unless all are. Each hit counts as one access.
        """
        table = self.open().table
        ids = [i for i in [table.find_label(hash30(label)) for label in labels] if i]
        if labels and not ids:
            return []
        out = []
        for slot in self.slots(lambda i: not ids or any([table.has_label(i, k) for k in ids])):
            out.append(slot)
            if len(out) == (limit or RECALL_LIMIT):
                break
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

    def idle(self):
        """Bring the derived files up to date if that is due. Cheap otherwise."""
        if self.bytes >= 0 and not self.readonly:
            self.journal.idle()
            if self.stale and (
                self.stale >= _MANY or ticks_diff(ticks_ms(), self.stale_at) > _QUIET_MS
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
            drop("derived")
