"""The compact index of the store in RAM: numbers of each item, none of its text.

Owns: arrays with one slot an item, in record order, and the table of labels (id and hash).
Must not read files. 32 bytes an item and 6 a label: 128 items with 384 labels take under 8 KB.
A label's text is read from the records when it is needed.
"""

from array import array

from ..compat import const

LIVE = const(1)
PINNED = const(2)
# Restated since the last digest write: its time is news to the flash.
FRESH = const(4)

# A time before 2020 is that of a clock that was never set (1970, or 2000 on the chip, B08).
_SANE = const(1577836800)
_DAY = const(86400)
_STEP = const(32)


def sane(seconds, now):
    """True if `seconds` can be true: not before 2020, not a day after `now` (0: unknown)."""
    return seconds >= _SANE and (not now or seconds <= now + _DAY)


class Table:
    """Slots 0..n-1 in record order; a slot without LIVE is dead until the next compaction."""

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

    def add(self):
        """Append an empty live slot and return its number."""
        i = self.n
        if i == len(self.flags):
            for a in (self.id_hash, self.offset, self.updated, self.key, self.sig):
                a.extend(array("I", bytes(4 * _STEP)))
            for a in (self.length, self.count, self.labels, self.labels, self.labels):
                a.extend(array("H", bytes(2 * _STEP)))
            self.pending.extend(bytes(_STEP))
            self.flags.extend(bytes(_STEP))
        self.n = i + 1
        self.live += 1
        self.flags[i] = LIVE
        self.pending[i] = 0
        self.updated[i] = self.count[i] = 0
        return i

    def kill(self, i):
        """Mark slot `i` dead."""
        if self.flags[i] & LIVE:
            self.flags[i] = 0
            self.pending[i] = 0
            self.live -= 1

    def is_live(self, i):
        """True if slot `i` holds an item."""
        return self.flags[i] & LIVE != 0

    def pinned(self):
        """Number of pinned items."""
        n = 0
        for i in range(self.n):
            n += self.flags[i] & PINNED != 0
        return n

    def squeeze(self):
        """Take the dead slots and the labels without items out."""
        to = 0
        for i in range(self.n):
            if self.flags[i] & LIVE:
                if to != i:
                    for a in (
                        self.id_hash,
                        self.offset,
                        self.length,
                        self.updated,
                        self.count,
                        self.key,
                        self.sig,
                        self.pending,
                        self.flags,
                    ):
                        a[to] = a[i]
                    for k in range(3):
                        self.labels[to * 3 + k] = self.labels[i * 3 + k]
                to += 1
        self.n = to
        ids = array("H")
        hashes = array("I")
        refs, _ = self.label_uses()
        for k in range(len(refs)):
            if refs[k]:
                ids.append(self.label_id[k])
                hashes.append(self.label_hash[k])
        self.label_id = ids
        self.label_hash = hashes

    # -- labels

    def label_at(self, label_id):
        """Place of a label in the label table, -1 if it is not there."""
        for k, other in enumerate(self.label_id):
            if other == label_id:
                return k
        return -1

    def label_uses(self):
        """(number of live items, first such slot) of each label, as two arrays by place."""
        ids = list(self.label_id)
        refs = array("H", bytes(2 * len(ids)))
        first = array("H", bytes(2 * len(ids)))
        for i in range(self.n):
            if self.flags[i] & LIVE:
                for label_id in self.labels[i * 3 : i * 3 + 3]:
                    if label_id:
                        k = ids.index(label_id)
                        if not refs[k]:
                            first[k] = i
                        refs[k] += 1
        return refs, first

    def find_label(self, label_hash):
        """Id of the label with this hash, 0 if there is none."""
        for k in range(len(self.label_id)):
            if self.label_hash[k] == label_hash:
                return self.label_id[k]
        return 0

    def add_label(self, label_hash, wanted=0):
        """Id of the label, made if new; `wanted` (a recorded id) is taken if it is free."""
        found = self.find_label(label_hash)
        if found:
            return found
        if not wanted or self.label_at(wanted) >= 0:
            wanted = self.next_label
            while wanted > 65534 or self.label_at(wanted) >= 0:
                wanted = wanted + 1 if wanted < 65534 else 1
        self.label_id.append(wanted)
        self.label_hash.append(label_hash)
        if wanted >= self.next_label:
            self.next_label = wanted + 1
        return wanted

    def set_labels(self, i, ids):
        """Give slot `i` the label ids `ids`."""
        for k in range(3):
            self.labels[i * 3 + k] = ids[k] if k < len(ids) else 0

    def has_label(self, i, label_id):
        """True if slot `i` carries the label."""
        k = i * 3
        return label_id in (self.labels[k], self.labels[k + 1], self.labels[k + 2])

    # -- heat

    def effective(self, now):
        """Times to rank by: `updated`, and for one that cannot be true that of its neighbour.

        So a clock that was never set, or that stood in the future, neither dooms nor crowns an
        item (SPEC-longterm §7, B08, B50).
        """
        out = array("I", self.updated)
        last = first = 0
        for i in range(self.n):
            if not self.flags[i] & LIVE:
                continue
            if sane(out[i], now):
                last = out[i]
                first = first or last
            else:
                out[i] = last
        if first:
            for i in range(self.n):
                if self.flags[i] & LIVE and out[i]:
                    break
                out[i] = first
        return out

    def newest(self, now):
        """The newest time that can be true, 0 if none is."""
        best = 0
        for i in range(self.n):
            if self.flags[i] & LIVE and self.updated[i] > best and sane(self.updated[i], now):
                best = self.updated[i]
        return best

    def coldest(self, now, keep=-1):
        """(slot, score) of the item to evict: the lowest count*3 + hours, the earliest on a tie.

        Never a pinned one nor `keep`; slot -1 if nothing is left to choose from.
        """
        times = self.effective(now)
        best = -1
        low = 0
        for i in range(self.n):
            if self.flags[i] & (LIVE | PINNED) != LIVE or i == keep:
                continue
            score = self.count[i] * 3 + times[i] // 3600
            if best < 0 or score < low:
                best = i
                low = score
        return best, low

    def ranked(self, now, id_of, chosen=None):
        """Live slots as an array, hottest first: count and time descending, id ascending.

        `id_of(slot)` gives an id, asked on ties only; `chosen(slot)` filters.
        """
        times = self.effective(now)
        order = array("H")
        for i in range(self.n):
            if not self.flags[i] & LIVE or (chosen and not chosen(i)):
                continue
            low = 0
            high = len(order)
            while low < high:
                mid = (low + high) // 2
                j = order[mid]
                d = self.count[i] - self.count[j] or times[i] - times[j]
                if d > 0 or (d == 0 and id_of(i).encode() < id_of(j).encode()):
                    high = mid
                else:
                    low = mid + 1
            order.append(i)
            order[low + 1 :] = order[low:-1]
            order[low] = i
        return order
