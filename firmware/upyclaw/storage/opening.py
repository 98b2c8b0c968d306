"""Finds out what is on flash when a session is opened, and has it mended.

Owns: the order of the questions (left-over temporary files, does the idx fit, lines it does not
know, a question that waits). What is really damaged is mended by recover.py. Imported for one
call.
"""

from upyclaw.storage import files


def load(pair):
    """Read the state of `pair` from flash, mending what needs it.

    Raises OSError, StorageError, MemoryError.
    """
    path = pair.path
    for end in (".new", ".idx.new", ".old.new"):
        if files.size(path + end) >= 0:
            from upyclaw.storage import recover

            recover.settle(path)
            break
    n = files.size(path)
    pair.exists = n >= 0
    pair.size = pair.durable = max(n, 0)
    pair.waiting = 0
    pair.blocked = files.size(path + ".blocked") >= 0
    if pair.blocked and pair.size <= pair.store.limit:
        files.remove(path + ".blocked")
        pair.blocked = False
    data = open(path, "rb") if pair.exists else None
    try:
        if not pair.index.check(data, pair.size):
            from upyclaw.storage import recover

            if recover.restore_ends(pair):
                files.close(data)
                return load(pair)
            recover.set_aside_index(pair)
        catch_up(pair, data)
    finally:
        files.close(data)
    load_open(pair)


def catch_up(pair, data):
    """Index the lines that the idx does not know; mend the last one if it has no LF."""
    start = pair.index.end()
    if start >= pair.size:
        return
    from upyclaw.storage.scan import scan_lines

    buf = pair.store.buf
    fmt = pair.index.last_format()
    try:
        end, bad, whole = scan_lines(data, start, pair.size, fmt, pair.index.spill, buf)
        if pair.index.spilled:
            pair.index.store()
    except OSError:
        # No room for the idx: it stays in RAM this time.
        pair.index.check(data, pair.size)
        start = pair.index.end()
        end, bad, whole = scan_lines(data, start, pair.size, fmt, pair.index.add, buf)
    if bad:
        pair.notice(
            "{} line{} of {} cannot be read; kept in the file, left out of what the model"
            " sees.".format(bad, "" if bad == 1 else "s", pair.name)
        )
    if end < pair.size:
        from upyclaw.storage import recover

        files.close(data)
        recover.mend_tail(pair, end, whole)
        load(pair)


def read_open(path):
    """(data offset, first byte, bytes) of the record in `.open`; None if it holds none."""
    try:
        f = open(path + ".open", "rb")
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


def load_open(pair):
    """Find out if the record in `.open` still waits for its place in the data."""
    found = read_open(pair.path)
    if not found or found[0] < pair.size:
        return
    if found[0] > pair.size:
        from upyclaw.storage import recover

        if not recover.user_is_missing(pair, found[1], found[2]):
            return
    pair.waiting_at, pair.waiting = found[1], found[2]
    pair.waiting_for = pair.size
    pair.waiting_format = pair.index.last_format()
