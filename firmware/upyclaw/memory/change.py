"""Changing the store: a fact is new, refines one, or is known; update and pin.

Owns: what is appended to the record file and what the index then says. Must not know who asked.
Loaded for a change and dropped again. One append makes a change whole: what ends an item (an
evicted one, a twin) goes into the same write as what begins one, so a cut leaves both or neither.
"""

from ..compat import const
from ..storage.files import StorageError, close, wrap
from . import drop, record, render
from .cuts import clean, cut, hash30
from .heat import PINNED

# So many items can be pinned: the rest must stay free to move.
PIN_LIMIT = const(64)
# Dead bytes in the record file before it is rewritten; a third of the live ones if that is more.
_WASTE = const(12288)


def store(memory, content, tags, keywords, source, memory_id, found):
    """See MemoryStore.store. `content` is clean, `found` is what relate.relate says of it."""
    tags, keywords = _normal(content, tags, keywords)
    how, slot, *index = found
    if how == "same" or how == "covered":
        memory.touch(slot, False)
        item = memory.item(slot)
        return "same", item["id"], record.labels_of(item["tags"])
    if how == "refines":
        item = memory.item(slot)
        tags = render.normal_tags(tags + "," + item["tags"])
        keywords = render.normal_keywords(keywords, content, tags)
        _rewrite(memory, slot, item, (content, tags, keywords, source), index)
        return "refined", item["id"], record.labels_of(tags)
    return _add(memory, (content, tags, keywords, source), memory_id, index)


def update(memory, slot, content, tags, keywords, source, found):
    """See MemoryStore.update; `content` and `found` as for `store`."""
    old = memory.item(slot)
    tags, keywords = _normal(content, tags or old["tags"], keywords or old["keywords"])
    source = cut(clean(source), record.SOURCE) or old["source"]
    fields = (content, tags, keywords, source)
    if fields == (old["content"], old["tags"], old["keywords"], old["source"]):
        return False, record.labels_of(tags)
    how, twin, *index = found
    if how != "same":
        twin = -1
    else:
        memory.table.count[slot] = max(memory.table.count[slot], memory.table.count[twin])
    _rewrite(memory, slot, old, fields, index, twin)
    return True, record.labels_of(tags)


def pin(memory, id, on):
    """See MemoryStore.pin."""
    slot = memory.find(id)
    table = memory.table
    if slot < 0 or (on and table.pinned() >= PIN_LIMIT):
        return False
    if on != (table.flags[slot] & PINNED != 0):
        item = memory.item(slot)
        table.flags[slot] ^= PINNED
        try:
            fields = (item["content"], item["tags"], item["keywords"], item["source"])
            _rewrite(memory, slot, item, fields, (table.key[slot], table.sig[slot]))
        except StorageError:
            table.flags[slot] ^= PINNED
            raise
    return True


def _normal(content, tags, keywords):
    tags = render.normal_tags(tags)
    return tags, render.normal_keywords(keywords, content, tags)


def _new_id(memory):
    """`mem-<seconds>-<number>`, always above the highest so far, whatever the clock says."""
    seconds, number = memory.last_id
    number += 1
    if number > 9999:
        number = 0
        seconds += 1
    memory.last_id = (max(memory.now(), seconds), number)
    return "mem-%d-%04d" % memory.last_id


def _item(memory, fields, id, created, count, pinned):
    """An item that changed just now; `created` None: it did not exist before."""
    content, tags, keywords, source = fields
    now = memory.now()
    return {
        "id": id,
        "source": cut(clean(source), record.SOURCE),
        "content": content,
        "tags": tags,
        "keywords": keywords,
        "created_at": now if created is None else created,
        "updated_at": now,
        "access_count": count,
        "deleted": False,
        "summary_ids": [memory.table.add_label(hash30(label)) for label in record.labels_of(tags)],
        "pinned": pinned,
    }


def _add(memory, fields, memory_id, index):
    content, tags = fields[:2]
    table = memory.table
    item = _item(memory, fields, memory_id or _new_id(memory), None, 0, False)
    line = render.to_line(render.fit(item))
    cold = -1
    end = b""
    if table.live >= memory.limit:
        cold, score = table.coldest(memory.clock())
        drop("rank")
        if cold >= 0:
            cold_id = memory.id_of(cold)
            end = render.tombstone(cold_id, item["updated_at"])
    # The room in RAM first: a record on flash must not be missing in the index.
    i = table.add()
    try:
        at = _append(memory, line, end)
    except BaseException:
        table.kill(i)
        raise
    _place(table, i, at, line, item, index if item["content"] == content else None)
    if cold >= 0:
        memory.waste += table.length[cold] + 1 + len(end) + 1
        why = "score={} access={} lowest of {}".format(score, table.count[cold], memory.limit)
        table.kill(cold)
    try:
        memory.journal.add("store", item["id"])
        if cold >= 0:
            memory.journal.add("evict", cold_id, why)
            memory.journal.flush()
        _changed(memory)
    except MemoryError:
        # It is stored; the rest can wait.
        pass
    return "new", item["id"], record.labels_of(tags)


def _rewrite(memory, slot, old, fields, index, twin=-1):
    """Append the changed form of the item in `slot`; `twin` (a slot) is ended with it."""
    content = fields[0]
    table = memory.table
    pinned = table.flags[slot] & PINNED != 0
    item = _item(memory, fields, old["id"], old["created_at"], table.count[slot], pinned)
    line = render.to_line(render.fit(item))
    end = b""
    if twin >= 0:
        twin_id = memory.id_of(twin)
        end = render.tombstone(twin_id, item["updated_at"])
    at = _append(memory, line, end)
    memory.waste += table.length[slot] + 1
    _place(table, slot, at, line, item, index if item["content"] == content else None)
    table.pending[slot] = 0
    if twin >= 0:
        memory.waste += table.length[twin] + 1 + len(end) + 1
        table.kill(twin)
    try:
        if twin >= 0:
            memory.journal.add("forget", twin_id, "joined=" + old["id"])
        # The record holds all accesses so far; this line keeps a reader from adding them again.
        memory.journal.add("update", item["id"])
        memory.journal.flush()
        _changed(memory)
    except MemoryError:
        pass


def _place(table, i, at, line, item, index):
    table.id_hash[i] = hash30(item["id"])
    table.offset[i] = at
    table.length[i] = len(line)
    table.updated[i] = item["updated_at"]
    table.count[i] = item["access_count"]
    if index is None:
        # The content was shortened to fit its line.
        from .keys import keys

        index = keys(item["content"])
    table.key[i], table.sig[i] = index
    table.set_labels(i, item["summary_ids"])


def _append(memory, line, end=b""):
    """Append `line` and, if given, the tombstone `end`. Returns the offset; it is on flash."""
    at = memory.bytes
    # One write: whatever fails before it has changed nothing. A last line without its end must
    # not swallow this one (WEAKNESSES 7).
    data = (b"\n" if memory.torn else b"") + line + b"\n" + (end + b"\n" if end else b"")
    memory.release()
    f = None
    done = False
    try:
        f = open(memory.path, "ab")
        f.write(data)
        f.close()
        done = True
    except OSError as e:
        raise wrap(e, memory.path)
    finally:
        if not done:
            close(f)
            # Whatever got there is read anew before the next use.
            memory.bytes = -1
    memory.bytes = at + len(data)
    if memory.torn:
        memory.torn = False
        at += 1
    return at


def _changed(memory):
    memory.changed()
    live = memory.bytes - memory.waste
    if memory.waste > max(_WASTE, live // 3) or memory.journal.too_long():
        from .compact import compact

        try:
            compact(memory)
        except (StorageError, MemoryError):
            # No room for a second copy: the long file is as good, it is tried again later.
            pass
        drop("compact")
