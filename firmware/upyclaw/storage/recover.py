"""Mends what a power cut or damage left of a session. Imported only when something is wrong.

Owns: left-over temporary files, an idx that does not fit, a data file whose last line broke off.
Rule: the data file is the truth; nothing of it is wiped, what has to go is set aside as `*.bad`
(newest kept, if there is room) and the user is told (issue: damage table, B09, B55).
"""

import struct

from upyclaw.storage import files
from upyclaw.storage.codec import CUT_OFF, ENTRY, ENTRY_FORMAT, IDX_HEADER, USER
from upyclaw.storage.opening import read_open


def settle(path):
    """Finish or undo a compaction of data file `path` that was cut. Raises StorageError.

    `.new` exists from the first step to the commit, which renames it over the data file; the other
    temporary files are made after it. So without `.new` they are finished, with it they go, `.new`
    last. A missing data file beside a whole `.new` is the half-way state of FAT's rename.
    """
    try:
        if files.size(path + ".new") >= 0:
            if files.size(path) < 0 and files.size(path + ".idx.new") >= 8:
                files.replace(path + ".new", path)
            else:
                files.remove(path + ".idx.new")
                files.remove(path + ".old.new")
                files.remove(path + ".new")
                return
        for end in (".idx", ".old"):
            if files.size(path + end + ".new") >= 0:
                files.replace(path + end + ".new", path + end)
    except OSError as e:
        raise files.wrap(e, path)


def restore_ends(session):
    """Write LFs again that another byte took the place of; True if the idx may fit now.

    Only where the idx is in order, and what it calls a record is a whole JSON value from a line's
    start: followed by that byte it is no JSON in any reading, so nothing true is changed.
    """
    wrong: list[int] = []
    try:
        with open(session.index.path, "rb") as idx, open(session.path, "rb") as data:
            if idx.read(8) != IDX_HEADER:
                return False
            end = 0
            entry = idx.read(ENTRY)
            while entry:
                if len(entry) < ENTRY:
                    return False
                offset, n, rtype, fmt = struct.unpack(ENTRY_FORMAT, entry)
                if offset != end or not 1 < n <= session.size - end:
                    return False
                if not 1 <= rtype <= 4 or fmt > 3:
                    return False
                end += n
                data.seek(end - 1)
                if data.read(1) != b"\n":
                    if len(wrong) > 7 or not _is_json(session, data, offset, n - 1):
                        return False
                    wrong.append(end - 1)
                entry = idx.read(ENTRY)
        if wrong:
            with open(session.path, "r+b") as f:
                for at in wrong:
                    f.seek(at)
                    f.write(b"\n")
    except OSError:
        return False
    if wrong:
        session.notice(
            "A line end of {} was overwritten and is there again; the messages are all"
            " there.".format(session.name)
        )
    return bool(wrong)


def _is_json(session, data, offset, length):
    from upyclaw.storage.scan import Scan, scan_record

    scan = Scan()
    scan_record(data, offset, length, scan, session.store.buf)
    return scan.valid()


def set_aside_index(session):
    """Rename the idx that does not fit to `.idx.bad`; the next scan makes a new one."""
    path = session.index.path
    head = b""
    try:
        with open(path, "rb") as f:
            head = f.read(6)
        files.replace(path, path + ".bad")
    except OSError:
        files.remove(path)
    if not session.size:
        what = "The messages of {} are gone: its data file is missing or empty."
    elif session.index.short:
        what = "The data file of {} is shorter than its index says: its last messages are missing."
    elif head[:4] == IDX_HEADER[:4] and head[4:] != IDX_HEADER[4:6]:
        what = "The index of {} is of another version: it is kept as *.bad and made again."
    else:
        what = "The index of {} was damaged and is made again; the messages are all there."
    session.notice(what.format(session.name))


def mend_tail(session, start, whole):
    """End the data file in a whole line; its last line begins at `start` and has no LF.

    `whole`: it is a JSON value, so it gets its LF and counts. Otherwise its bytes are saved to
    `<name>.log.bad` and it is written over, at least as long as it was: by the user's record if
    that one was being written, else by a short note. There is no truncate (B48), and a new file
    would need room. Raises OSError; load again after.
    """
    path = session.path
    if whole:
        with open(path, "r+b") as f:
            f.seek(0, 2)
            f.write(b"\n")
        return
    left = session.size - start
    try:
        with open(path, "rb") as f, open(path + ".bad", "wb") as out:
            f.seek(start)
            session.copy(f, out, left)
    except OSError:
        files.discard(path + ".bad")
    user = read_open(path)
    with open(path, "r+b") as f:
        f.seek(start)
        if user and user[0] == start:
            with open(path + ".open", "rb") as source:
                source.seek(user[1])
                session.copy(source, f, user[2])
            left -= user[2]
        else:
            f.write(CUT_OFF)
            left -= len(CUT_OFF)
            session.notice(
                "The last message of {} broke off and is marked so.".format(session.name)
            )
        while left > 0:
            f.write(b" ")
            left -= 1
        f.write(b"\n")


def user_is_missing(session, at, n):
    """True if the record in `.open` (from byte `at`, `n` bytes) is not the newest USER record.

    Asked when the data file is shorter than `.open` says, which only damage or a foreign tool
    does.
    """
    index = session.index
    for i in range(len(index) - 1, -1, -1):
        offset, length, rtype, _ = index.get(i)
        if rtype == USER:
            break
    else:
        return True
    if length != n + 1:
        return True
    with open(session.path + ".open", "rb") as a, open(session.path, "rb") as b:
        a.seek(at)
        b.seek(offset)
        while n > 0:
            k = min(n, 64)
            if a.read(k) != b.read(k):
                return True
            n -= k
    return False
