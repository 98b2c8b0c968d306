"""All sessions of a board: open, list, delete, clean up, free space.

Owns: the folder of the session files and `sessions.txt` in it, one line `<file name><TAB><session
id>` for each session ever written to (the id escaped as in a JSON string). File names are made of
24 bytes and a hash, so the list is what tells two ids with one name apart, and what a chat map is
rebuilt from. Must not know chats or providers.

Limits: `limit` bytes of data per session (153,600, SPEC-session §9), at most half of the flash.
`reserve` free blocks are kept for housekeeping: turns do not use them, compaction and recovery do
(B46).
"""

from upyclaw.compat import MICROPYTHON, const, unload
from upyclaw.storage import files
from upyclaw.storage.codec import json_escape, session_file_name
from upyclaw.storage.files import FlashFull, StorageError
from upyclaw.storage.session import Session

LIMIT = const(153600)
_LIST = "/sessions.txt"
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


class SessionStore:
    """The sessions below folder `root`, which is made if need be.

    `when_full`: "block" or "trim", what happens when a session cannot be compacted below `limit`.
    `errors` counts failed writes. Raises StorageError if the flash itself fails.
    """

    # Code that is seldom needed leaves the heap after use (12 KB); tests that open often keep it.
    lean = MICROPYTHON

    def __init__(self, root, limit=LIMIT, when_full="block", reserve=8):
        self.root = root
        self.when_full = when_full
        self.reserve = reserve
        self.limit = limit
        self.block = 4096
        self.errors = 0
        self.buf = bytearray(512)
        self._notices = []
        self._open = {}
        self._free = None
        moved = files.make_dirs(root)
        if moved:
            self._notices.append("A file stood where the sessions go; it is now {}.".format(moved))
        if MICROPYTHON and files.same_in_upper_case(root):
            self._notices.append(
                "This board uses a FAT file system: sessions work, but a power cut may damage"
                " them."
            )
        space = files.space(root)
        if space and space[2]:
            self.block = space[2]
            most = space[1] * space[2] // 2
            if most < limit:
                self.limit = most
                self._notices.append(
                    "The session limit (session.limit) is {} bytes: the flash must hold a session"
                    " twice.".format(most)
                )

    def take_notices(self):
        """Sentences for the user about the store as a whole, each told once."""
        out = self._notices
        self._notices = []
        return out

    # ---- sessions

    def open(self, sid):
        """The Session with id `sid` (str); mended if need be. Opening a new one writes nothing.

        Raises StorageError if another session owns the file name, or if the flash fails.
        """
        name = session_file_name(sid)
        session = self._open.get(name)
        if session and session.sid == sid:
            return session
        owner = self.owner(name)
        if session or owner is not None and owner != sid:
            raise StorageError(
                "The name {} leads to the same file as {}: choose another.".format(
                    sid, owner or name
                )
            )
        try:
            session = Session(self, sid, name)
            session.claimed = owner is not None
            session.settle_user()
        except OSError as e:
            raise files.wrap(e, self.root + "/" + name)
        self._open[name] = session
        self.forget_code()
        return session

    def forget_code(self):
        """Let go of the modules that only recovery and compaction need."""
        if self.lean:
            unload("upyclaw.storage.compact", "upyclaw.storage.recover", "upyclaw.storage.scan")

    def close(self, session):
        """Close `session`; a later `open` reads it from flash again. Raises StorageError."""
        self._open.pop(session.name, None)
        session.close()

    def leave(self, sid):
        """Close the session `sid` if it is open. Raises StorageError."""
        session = self._open.get(session_file_name(sid))
        if session and session.sid == sid:
            self.close(session)

    def list(self):
        """[(session id or None if unknown, file name, bytes of data)] of all sessions, by name.

        A session whose first question still waits in `.open` counts with 0 bytes.
        """
        owners = {}
        for name, sid in self._owners():
            owners[name] = sid
        sizes = {}
        for name, size in files.listing(self.root):
            if name.startswith("s_") and name.endswith(".log"):
                sizes[name] = size
            elif name.endswith(".log.open"):
                sizes.setdefault(name[:-5], 0)
        return [(owners.get(name), name, sizes[name]) for name in sorted(sizes)]

    def largest(self, but):
        """Words that name the largest session but file `but`, for a sentence on full flash."""
        found = None
        for sid, name, size in self.list():
            if name != but and (not found or size > found[1]):
                found = (sid[sid.rfind(":") + 1 :] if sid else name, size)
        return ", for instance {} ({} KB)".format(found[0], found[1] // 1024) if found else ""

    def delete(self, sid):
        """Delete the session `sid` with everything that belongs to it; True if there was any of
        it.

        Raises StorageError if its file belongs to another id or the flash fails; a later call
        goes on.
        """
        name = session_file_name(sid)
        owner = self.owner(name)
        if owner is not None and owner != sid:
            return False
        session = self._open.pop(name, None)
        if session:
            session.release()
        path = self.root + "/" + name
        found = False
        for end in ENDINGS:
            found = files.remove(path + end) or found
        if owner is not None:
            self._forget(name)
            found = True
        self.changed()
        return found

    def clean(self):
        """At start: finish or undo what a power cut left half done in any session. Returns the
        names."""
        done = []
        names = [name for name, _ in files.listing(self.root)]
        for name in names:
            at = name.find(".log") + 4
            if at == 3:
                if name.endswith(".new"):
                    self._settle_list(name)
            elif name.endswith(".new") and name[:at] not in done:
                from upyclaw.storage import recover

                done.append(name[:at])
                recover.settle(self.root + "/" + name[:at])
            elif name.endswith(".blocked") and name[:at] not in names:
                files.discard(self.root + "/" + name)
        maps = "/chat_map"
        if files.is_dir(self.root + maps):
            for name in [name for name, _ in files.listing(self.root + maps)]:
                # Without the map itself ChatMap looks into the new one.
                if name.endswith(".new") and files.size(self.root + maps + "/" + name[:-4]) >= 0:
                    files.discard(self.root + maps + "/" + name)
        self.forget_code()
        return done

    def _settle_list(self, name):
        # `name` is that of a new list beside the old one, or alone after half a rename on FAT.
        path = self.root + "/" + name
        if name == _LIST[1:] + ".new" and files.size(path[:-4]) < 0:
            files.replace(path, path[:-4])
        else:
            files.discard(path)

    # ---- who owns which file name

    def _owners(self):
        # Yields (file name, session id) of each readable line.
        from upyclaw.compat import json_loads

        try:
            f = open(self.root + _LIST, "rb")
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

    def owner(self, name):
        """Session id that owns file `name`; None if nobody is known to."""
        for other, sid in self._owners():
            if other == name:
                return sid
        return None

    def sids(self, prefix):
        """Session ids that begin with `prefix`, in the order of their creation."""
        return [sid for _, sid in self._owners() if sid.startswith(prefix)]

    def claim(self, session):
        """Write down that `session` owns its file name. Raises OSError."""
        path = self.root + _LIST
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

    def _forget(self, name):
        path = self.root + _LIST
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

    # ---- room

    def free_blocks(self):
        """Free blocks of the file system now; None if unknown."""
        space = files.space(self.root)
        return space[0] if space else None

    def changed(self):
        """Space was freed or used in a way that `need` cannot know."""
        self._free = None

    def need(self, n, name):
        """Raises FlashFull unless `n` bytes for session `name` fit beside the reserve.

        Counting free blocks makes LittleFS walk over the flash, so an estimate on the safe side is
        used as long as it is far from the reserve.
        """
        blocks = n // self.block + 2
        if self._free is None or self._free - blocks < self.reserve + 16:
            self._free = self.free_blocks()
            if self._free is None:
                return
            if self._free - blocks < self.reserve:
                raise FlashFull(
                    "The flash is full ({} KB free, {} KB of it kept for housekeeping), this is"
                    " not saved: /session delete one you do not need{}.".format(
                        self._free * self.block // 1024,
                        self.reserve * self.block // 1024,
                        self.largest(name),
                    )
                )
        self._free -= blocks
