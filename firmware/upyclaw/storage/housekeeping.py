"""What a store does seldom: list, delete, clean up, and the list of who owns which file name.

Owns: `sessions.txt`, one line `<file name><TAB><session id>` for each session ever written to (the
id escaped as in a JSON string). Imported by SessionStore for one call and forgotten. Functions
take the store first.
"""

from upyclaw.compat import json_loads
from upyclaw.storage import files
from upyclaw.storage.codec import json_escape

LIST = "/sessions.txt"
# Everything a session may have, in the order of deletion. The data file goes last but for the
# mark: as long as it is there the session is, and what is missing is made again.
ENDINGS = (
    ".bad",
    ".idx.bad",
    ".old",
    ".idx.new",
    ".old.new",
    ".new",
    ".open",
    ".idx",
    "",
    ".blocked",
)


def owners(store):
    """Yield (file name, session id) of each readable line of the list."""
    try:
        f = open(store.root + LIST, "rb")
    except OSError:
        return
    with f:
        for line in f:
            tab = line.find(b"\t")
            if tab > 0 and line.endswith(b"\n"):
                try:
                    yield line[:tab].decode(), json_loads(b'"' + line[tab + 1 : -1] + b'"')
                except (ValueError, UnicodeError):
                    pass


def owner(store, name):
    """Session id that owns file `name`; None if nobody is known to."""
    for other, sid in owners(store):
        if other == name:
            return sid
    return None


def sids(store, prefix):
    """Session ids that begin with `prefix`, in the order of their creation."""
    return [sid for _, sid in owners(store) if sid.startswith(prefix)]


def claim(store, session):
    """Write down that `session` owns its file name. Raises OSError."""
    path = store.root + LIST
    n = files.size(path)
    torn = b""
    if n > 0:
        with open(path, "rb") as f:
            f.seek(n - 1)
            if f.read(1) != b"\n":
                torn = b"\n"
    with open(path, "ab") as f:
        line = session.name.encode() + b"\t" + json_escape(session.sid) + b"\n"
        f.write(torn + line)
    session.claimed = True


def forget(store, name):
    """Take file `name` off the list. Raises StorageError."""
    path = store.root + LIST
    start = name.encode() + b"\t"
    try:
        with open(path, "rb") as f, open(path + ".new", "wb") as out:
            for line in f:
                if not line.startswith(start):
                    out.write(line)
        files.replace(path + ".new", path)
    except OSError as e:
        files.discard(path + ".new")
        raise files.wrap(e, path)


def listing(store):
    """See SessionStore.list."""
    known = {}
    for name, sid in owners(store):
        known[name] = sid
    sizes = {}
    for name, size in files.listing(store.root):
        if name.startswith("s_") and name.endswith(".log"):
            sizes[name] = size
        elif name.endswith(".log.open"):
            sizes.setdefault(name[:-5], 0)
    return [(known.get(name), name, sizes[name]) for name in sorted(sizes)]


def largest(store, but):
    """Words that name the largest session but file `but`, for a sentence on full flash."""
    found = None
    for sid, name, size in listing(store):
        # Less than a block frees next to nothing.
        if name != but and size >= store.block and (not found or size > found[1]):
            found = (sid[sid.rfind(":") + 1 :] if sid else name, size)
    return ", for instance {} ({} KB)".format(found[0], found[1] // 1024) if found else ""


def delete(store, name, listed):
    """Delete all files of session file `name`; `listed`: take it off the list. True if it was
    there."""
    found = listed
    for end in ENDINGS:
        found = files.remove(store.root + "/" + name + end) or found
    if listed:
        forget(store, name)
    return found


def clean(store):
    """See SessionStore.clean."""
    done = []
    names = [name for name, _ in files.listing(store.root)]
    for name in names:
        at = name.find(".log") + 4
        path = store.root + "/" + name
        if at == 3:
            if name.endswith(".new"):
                if name == LIST[1:] + ".new" and files.size(path[:-4]) < 0:
                    # Half a rename on FAT.
                    files.replace(path, path[:-4])
                else:
                    files.discard(path)
        elif name.endswith(".new") and name[:at] not in done:
            from upyclaw.storage import recover

            done.append(name[:at])
            try:
                recover.settle(store.root + "/" + name[:at])
            except files.StorageError as e:
                # The board starts all the same (B55); opening the session tries again.
                store.notice(str(e))
        elif name.endswith(".blocked") and name[:at] not in names:
            files.discard(path)
    maps = store.root + "/chat_map"
    if files.is_dir(maps):
        for name in [name for name, _ in files.listing(maps)]:
            # Without the map itself ChatMap looks into the new one.
            if name.endswith(".new") and files.size(maps + "/" + name[:-4]) >= 0:
                files.discard(maps + "/" + name)
    return done
