"""Which sessions a chat has and which one is current (SPEC-context-and-tools §3).

Owns: `<root>/chat_map/chat_<safe>_<fnv1a>.json`, replaced whole at each change. A damaged map is
set aside as `*.bad` and made again from the session files, so that no session is lost with it.
Must not touch session files but through the store.

Limits: 1 to 32 sessions per chat; an alias has 1 to 32 of the characters `[A-Za-z0-9_-]`.
"""

from upyclaw.compat import const, json_loads
from upyclaw.storage import files
from upyclaw.storage.codec import fnv1a, json_escape, word_byte

MOST = const(32)
FIRST = "default_01"


def map_file_name(chat_key):
    """File name of the map of `chat_key` (`chat:<channel>:<chat id>`)."""
    out = ""
    for b in chat_key.encode():
        ch = chr(b) if word_byte(b) and b != 45 else "_"
        if ch != "_" or not out.endswith("_"):
            out += ch
        if len(out) == 24:
            break
    while out.endswith("_"):
        out = out[:-1]
    return "chat_{}_{:08x}.json".format(out, fnv1a(chat_key.encode()))


def valid_alias(alias):
    """True if `alias` can name a session."""
    data = alias.encode()
    if not 1 <= len(data) <= 32:
        return False
    for b in data:
        if not word_byte(b):
            return False
    return True


class ChatMap:
    """The sessions of one chat. Commands return (done, sentence for the user); they never raise.

    Reading may raise StorageError only if the flash itself fails.
    """

    def __init__(self, store, chat_key):
        self.store = store
        self.chat_key = chat_key
        self.path = store.root + "/chat_map/" + map_file_name(chat_key)
        self.aliases = []
        self.alias = ""
        self.notices = []
        self._load()

    def take_notices(self):
        """Sentences for the user since the last call."""
        out = self.notices
        self.notices = []
        return out

    def current(self):
        """(alias, session id) of the current session; a chat without one gets `default_01`."""
        if not self.aliases:
            try:
                self.put([FIRST], FIRST)
            except files.FlashFull:
                # The board still says hello; that a turn is not saved is said with the turn.
                self.aliases = [FIRST]
                self.alias = FIRST
        return self.alias, self.sid(self.alias)

    def sid(self, alias):
        """Session id of `alias` in this chat."""
        return self.chat_key + ":" + alias

    def list(self):
        """[(alias, is it current)] in the order of their creation."""
        self.current()
        return [(alias, alias == self.alias) for alias in self.aliases]

    def new(self, alias=""):
        """Add a session and switch to it; without `alias` it gets the smallest free default_NN."""
        return self._edit("new", alias)

    def switch(self, alias):
        """Make `alias` the current session."""
        return self._edit("switch", alias)

    def delete(self, alias):
        """Delete session `alias`, its history first; not the current one."""
        return self._edit("delete", alias)

    def _edit(self, function, argument):
        from upyclaw.storage import chatedit

        out = getattr(chatedit, function)(self, argument)
        self.store.forget_code()
        return out

    def put(self, aliases, current):
        """Write the map. Raises StorageError."""
        text = b'{"chat_key":"' + json_escape(self.chat_key)
        text += b'","current_alias":"' + current.encode()
        text += b'","sessions":["' + b'","'.join(a.encode() for a in aliases) + b'"]}'
        files.make_dirs(self.store.root + "/chat_map")
        files.write_file(self.path, text)
        self.aliases = aliases
        self.alias = current

    def _load(self):
        text = self._read(self.path)
        if text is None:
            # FAT's rename may have been cut half-way; elsewhere `.new` is an unfinished first
            # write.
            text = self._read(self.path + ".new")
            if text is not None and not self._parse(text):
                files.discard(self.path + ".new")
            if not self.aliases:
                self.aliases = self._edit("from_sessions", self.sid(""))
                self.alias = self.aliases[-1] if self.aliases else ""
        elif not self._parse(text):
            self._edit("rebuild", text)

    def _read(self, path):
        n = files.size(path)
        if n < 0:
            return None
        try:
            with open(path, "rb") as f:
                # No more than there is: MicroPython makes room for all that is asked for.
                return f.read(min(n, 4096))
        except OSError as e:
            raise files.wrap(e, path)

    def _parse(self, text):
        try:
            value = json_loads(text)
            aliases = value["sessions"]
            current = value["current_alias"]
            if value["chat_key"] != self.chat_key or not 1 <= len(aliases) <= MOST:
                return False
            for i in range(len(aliases)):
                if not valid_alias(aliases[i]) or aliases[i] in aliases[:i]:
                    return False
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        if current not in aliases:
            return False
        self.aliases = aliases
        self.alias = current
        return True
