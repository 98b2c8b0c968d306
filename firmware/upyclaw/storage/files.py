"""Safe file work: replace, folders, free space, and errors that say what happened.

Owns: the few operations through which storage changes the file system, and the errors it raises.
Must not know what the files mean. LittleFS commits a file whole at flush/close and renames in one
step; FAT does neither, so callers keep their half-way states recoverable (B46, B48, B49).
"""

import os

_ENOSPC = 28


class StorageError(Exception):
    """Storage could not do it; the text is one sentence for the user."""


class FlashFull(StorageError):
    """No room on the flash. What was there before is whole."""


class SessionBlocked(StorageError):
    """The session takes no new records until it is trimmed or deleted (SPEC-session §10)."""


def wrap(error, path):
    """The StorageError for OSError `error` at `path`: FlashFull if the flash is full."""
    name = path[path.rfind("/") + 1 :]
    if error.args and error.args[0] == _ENOSPC:
        return FlashFull(
            "The flash is full, {} could not be written: delete a session to make room.".format(
                name
            )
        )
    return StorageError("{} could not be read or written ({}).".format(name, error))


def size(path):
    """Bytes in the file `path`; -1 if there is none."""
    try:
        st = os.stat(path)
    except OSError:
        return -1
    return -1 if st[0] & 0x4000 else st[6]


def is_dir(path):
    """True if `path` is a folder."""
    try:
        return os.stat(path)[0] & 0x4000 != 0
    except OSError:
        return False


def remove(path):
    """Delete the file `path`; returns True if it was there."""
    try:
        os.remove(path)
    except OSError as e:
        if size(path) >= 0:
            raise wrap(e, path)
        return False
    return True


# Windows' rename refuses an existing target; MicroPython has no os.replace.
replace = getattr(os, "replace", os.rename)


def write_file(path, data):
    """Put bytes `data` into `path` so that a cut leaves the old or the new file. Raises
    StorageError."""
    new = path + ".new"
    try:
        f = open(new, "wb")
        try:
            f.write(data)
        finally:
            f.close()
        replace(new, path)
    except OSError as e:
        discard(new)
        raise wrap(e, path)


def discard(path):
    """Delete `path` if that is possible; never raises OSError or StorageError."""
    try:
        os.remove(path)
    except OSError:
        pass


def no_file():
    """None, typed so that a file may take its place."""
    return None


def close(f):
    """Close `f` (or None) after a failure whose error is already known."""
    if f:
        try:
            f.close()
        except OSError:
            pass


def make_dirs(path):
    """Make folder `path` with all above it. A file in its way is renamed to `*.bad` (B52, B55).

    Returns the name set aside, or None. Raises StorageError.
    """
    moved = None
    at = 0
    while at >= 0:
        at = path.find("/", at + 1)
        part = path if at < 0 else path[:at]
        if is_dir(part):
            continue
        try:
            if size(part) >= 0:
                moved = part + ".bad"
                replace(part, moved)
            os.mkdir(part)
        except OSError as e:
            raise wrap(e, part)
    return moved


def listing(path):
    """Yield (name, bytes) of each file in folder `path`."""
    if hasattr(os, "ilistdir"):
        for item in os.ilistdir(path):
            if item[1] & 0x8000:
                yield item[0], item[3] if len(item) > 3 else size(path + "/" + item[0])
    else:
        for name in sorted(os.listdir(path)):
            n = size(path + "/" + name)
            if n >= 0:
                yield name, n


def space(path):
    """(free, total, block): free and total blocks of the file system of `path`, bytes per block.

    None where the system does not tell.
    """
    if not hasattr(os, "statvfs"):
        return None
    s = os.statvfs(path)
    # LittleFS counts some blocks twice; on a full flash the difference wraps below zero.
    return s[3] if s[3] <= s[2] else 0, s[2], s[1] or s[0]


def same_in_upper_case(path):
    """True if the file system of folder `path` ignores case: FAT does, LittleFS does not (B49)."""
    at = path.rfind("/") + 1
    other = path[:at] + path[at:].upper()
    return other != path and is_dir(other)
