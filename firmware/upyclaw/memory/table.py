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
        for k in range(len(self.label_id)):
            if self.refs(self.label_id[k]):
                ids.append(self.label_id[k])
                hashes.append(self.label_hash[k])
        self.label_id = ids
        self.label_hash = hashes

    # -- labels

    def refs(self, label_id):
        """How many live items carry the label."""
        n = 0
        labels = self.labels
        for i in range(self.n):
            if self.flags[i] & LIVE:
                k = i * 3
                if label_id == labels[k] or label_id == labels[k + 1] or label_id == labels[k + 2]:
                    n += 1
        return n

    def find_label(self, label_hash):
        """Id of the label with this hash, 0 if there is none."""
        for k in range(len(self.label_id)):
            if self.label_hash[k] == label_hash:
                return self.label_id[k]
        return 0

    def is_used(self, label_id):
        """True if a label has this id (MicroPython's arrays know no `in`)."""
        for other in self.label_id:
            if other == label_id:
                return True
        return False

    def add_label(self, label_hash, wanted=0):
        """Id of the label, made if new; `wanted` (a recorded id) is taken if it is free."""
        found = self.find_label(label_hash)
        if found:
            return found
        if not wanted or self.is_used(wanted):
            wanted = self.next_label
            while wanted > 65534 or self.is_used(wanted):
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
        """Yield live slots, hottest first: count and time descending, id ascending.

        `id_of(slot)` gives an id, asked on ties only; `chosen(slot)` filters.
        """
        times = self.effective(now)
        done = bytearray(self.n)
        while True:
            best = -1
            best_id = None
            for i in range(self.n):
                if done[i] or not self.flags[i] & LIVE or (chosen and not chosen(i)):
                    continue
                if best >= 0:
                    d = self.count[i] - self.count[best] or times[i] - times[best]
                    if d < 0:
                        continue
                    if d == 0:
                        best_id = best_id or id_of(best)
                        other = id_of(i)
                        if other.encode() > best_id.encode():
                            continue
                        best_id = other
                    else:
                        best_id = None
                best = i
            if best < 0:
                return
            done[best] = 1
            yield best
