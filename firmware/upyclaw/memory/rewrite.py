"""The record file written anew: live items only, with the counts of today (SPEC-longterm §6).

Owns: the compacted form of a line. Must not change what an item says, nor the old file.
"""

from array import array

from ..compat import collect, utf8_clean
from ..storage.files import StorageError, close, wrap
from . import record, render
from .heat import LIVE, PINNED


def rewrite(store, path):
    """Write the live items to `path`. Returns (offsets, lengths, bytes, dead bytes)."""
    table = store.table
    offsets = array("I")
    lengths = array("H")
    total = waste = 0
    # Ids never repeat: the highest one stays known though its item is gone.
    highest = "mem-%d-%04d" % store.last_id
    missing = store.last_id != (0, 0)
    f = None
    done = False
    try:
        f = open(path, "wb")
        # Read here: MemoryStore.lines would bring the code of all its neighbours.
        buf = memoryview(bytearray(max(table.length) if table.n else 0))
        for i in range(table.n):
            if not table.flags[i] & LIVE:
                continue
            line = buf[: table.length[i]]
            store.read(i, line)
            if not i & 7:
                # Now, not when the heap is full of pieces of lines.
                collect()
            data = _renewed(table, i, bytes(line))
            if missing and record.field(data, b"id") == highest:
                missing = False
            f.write(data)
            f.write(b"\n")
            offsets.append(total)
            lengths.append(len(data))
            total += len(data) + 1
        if missing:
            data = render.tombstone(highest, 0)
            f.write(data)
            f.write(b"\n")
            waste = len(data) + 1
            total += waste
        f.close()
        done = True
    except OSError as e:
        raise wrap(e, store.path)
    finally:
        if not done:
            close(f)
    return offsets, lengths, total, waste


def _renewed(table, i, line):
    """`line` with the counts, times and labels of slot `i`, in the compacted form."""
    ids = [k for k in table.labels[i * 3 : i * 3 + 3] if k]
    at = line.find(b',"updated_at":')
    # Our own lines need no parsing: only the numbers at the end change.
    if (
        record.peek(line, b"id") is not None
        and at > 0
        and line[line.rfind(b":", 0, at) + 1 : at].isdigit()
        and "\ufffd" not in utf8_clean(line)
    ):
        data = (
            line[:at]
            + (
                ',"updated_at":%d,"access_count":%d,"deleted":false,"summary_ids":[%s],'
                '"summary_labels":[]%s}'
                % (
                    table.updated[i],
                    table.count[i],
                    ",".join([str(k) for k in ids]),
                    ',"pinned":true' if table.flags[i] & PINNED else "",
                )
            ).encode()
        )
        if len(data) <= render.LINE:
            return data
    item = record.from_line(line)
    if item is None:
        raise StorageError("memory_records.jsonl changed under us: restart the board.")
    item["access_count"] = table.count[i]
    item["updated_at"] = max(item["updated_at"], table.updated[i])
    item["summary_ids"] = ids
    for key in ("content", "tags", "keywords"):
        item[key] = record.mend(item[key])
    return render.to_line(render.fit(item), True)
