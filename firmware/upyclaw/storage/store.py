"""All sessions of a board: open, list, delete, clean up, free space.

Owns: the folder of the session files. File names are made of 24 bytes and a hash, so a list of who
owns which (housekeeping.py) tells two ids with one name apart. Must not know chats or providers.

Limits: `limit` bytes of data per session (153,600, SPEC-session §9), at most half of the flash.
`reserve` free blocks are kept for housekeeping: turns do not use them, compaction and recovery do
(B46).
"""

from upyclaw.compat import MICROPYTHON, const, unload
from upyclaw.storage import files
from upyclaw.storage.codec import session_file_name
from upyclaw.storage.files import FlashFull, StorageError
from upyclaw.storage.session import Session

LIMIT = const(153600)

# Modules that are needed for a moment only.
_RARE = ("compact", "recover", "scan", "opening", "housekeeping", "chatedit")


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
            self.notice("A file stood where the sessions go; it is now {}.".format(moved))
        if MICROPYTHON and files.same_in_upper_case(root):
            self.notice(
                "This board uses a FAT file system: sessions work, but a power cut may damage"
                " them."
            )
        space = files.space(root)
        if space and space[2]:
            self.block = space[2]
            most = space[1] * space[2] // 2
            if most < limit:
                self.limit = most
                self.notice(
                    "The session limit (session.limit) is {} bytes: the flash must hold a session"
                    " twice.".format(most)
                )

    def notice(self, sentence):
        """Keep a sentence for the user."""
        self._notices.append(sentence)

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
        owner = self.rare("owner", name)
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
            for name in _RARE:
                unload("upyclaw.storage." + name)

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
        return self.rare("listing")

    def delete(self, sid):
        """Delete the session `sid` with all that belongs to it; True if there was any of it.

        Raises StorageError if the flash fails; a later call goes on. A file that belongs to
        another id is left alone.
        """
        name = session_file_name(sid)
        owner = self.rare("owner", name)
        if owner is not None and owner != sid:
            return False
        session = self._open.pop(name, None)
        if session:
            session.release()
        self.changed()
        return self.rare("delete", name, owner is not None)

    def clean(self):
        """At start: finish or undo what a power cut left half done. Returns the session files."""
        return self.rare("clean")

    def rare(self, function, *args):
        """Call a function of housekeeping.py with this store; its code leaves the heap after."""
        from upyclaw.storage import housekeeping

        try:
            return getattr(housekeeping, function)(self, *args)
        finally:
            self.forget_code()

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
                    "The flash is full ({} KB free, {} KB kept for housekeeping):"
                    " /session delete one you do not need{}.".format(
                        self._free * self.block // 1024,
                        self.reserve * self.block // 1024,
                        self.rare("largest", name),
                    )
                )
        self._free -= blocks
