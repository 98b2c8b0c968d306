"""Which sessions a chat has and which one is current (SPEC-context-and-tools §3).

Owns: `<root>/chat_map/chat_<safe>_<fnv1a>.json`, replaced whole at each change. A damaged map is
set aside as `*.bad` and made again from the session files, so that no session is lost with it.
Must not touch session files but through the store.

Limits: 1 to 32 sessions per chat; an alias has 1 to 32 of the characters `[A-Za-z0-9_-]`.
"""

from upyclaw.compat import const, json_loads
from upyclaw.storage import files
from upyclaw.storage.codec import fnv1a, json_escape, session_file_name, word_byte
from upyclaw.storage.files import StorageError

_MOST = const(32)
_FIRST = "default_01"


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
        self._path = store.root + "/chat_map/" + map_file_name(chat_key)
        self._aliases = []
        self._current = ""
        self._notices = []
        self._load()

    def take_notices(self):
        """Sentences for the user since the last call."""
        out = self._notices
        self._notices = []
        return out

    def current(self):
        """(alias, session id) of the current session; a chat without one gets `default_01`."""
        if not self._aliases:
            self._set([_FIRST], _FIRST)
        return self._current, self.sid(self._current)

    def sid(self, alias):
        """Session id of `alias` in this chat."""
        return self.chat_key + ":" + alias

    def list(self):
        """[(alias, is it current)] in the order of their creation."""
        self.current()
        return [(alias, alias == self._current) for alias in self._aliases]

    def new(self, alias=""):
        """Add a session and switch to it; without `alias` it gets the smallest free default_NN."""
        if alias and not valid_alias(alias):
            return False, (
                'Cannot create session "{}": a name has 1 to 32 letters, digits, "_" or "-".'
            ).format(alias)
        if alias in self._aliases:
            return False, (
                'Cannot create session "{}": a session with that name already exists.'
            ).format(alias)
        if len(self._aliases) >= _MOST:
            return False, "This chat has {} sessions, that is the most: delete one.".format(_MOST)
        number = 1
        while not alias:
            name = "default_{:02d}".format(number)
            if name not in self._aliases:
                alias = name
            number += 1
        sid = self.sid(alias)
        owner = self.store.owner(session_file_name(sid))
        if owner is not None and owner != sid:
            return False, (
                'Cannot create session "{}": its file name belongs to {}; choose another name.'
            ).format(alias, owner)
        return self._change(self._aliases + [alias], alias, "Started a new session: " + alias)

    def switch(self, alias):
        """Make `alias` the current session."""
        self.current()
        if alias not in self._aliases:
            return False, self._unknown("switch to", alias)
        return self._change(self._aliases, alias, "Switched to session: " + alias)

    def delete(self, alias):
        """Delete session `alias`, its history first; not the current one."""
        self.current()
        if alias not in self._aliases:
            return False, self._unknown("delete", alias)
        if alias == self._current:
            return False, (
                'Cannot delete the current session "{}". Switch to another session first.'
            ).format(alias)
        try:
            self.store.delete(self.sid(alias))
        except StorageError as e:
            return False, str(e)
        rest = [a for a in self._aliases if a != alias]
        return self._change(rest, self._current, "Deleted session: " + alias)

    # ---- inside

    def _unknown(self, what, alias):
        return (
            'Cannot {} session "{}": no such session. Send /session list to list sessions.'
        ).format(what, alias)

    def _change(self, aliases, current, sentence):
        left = self._current
        try:
            self._set(aliases, current)
            if left and left != current:
                self.store.leave(self.sid(left))
        except StorageError as e:
            return False, str(e)
        return True, sentence

    def _set(self, aliases, current):
        text = b'{"chat_key":"' + json_escape(self.chat_key)
        text += b'","current_alias":"' + current.encode()
        text += b'","sessions":["' + b'","'.join(a.encode() for a in aliases) + b'"]}'
        files.make_dirs(self.store.root + "/chat_map")
        files.write_file(self._path, text)
        self._aliases = aliases
        self._current = current

    def _load(self):
        text = self._read(self._path)
        if text is None:
            # FAT's rename may have been cut half-way; elsewhere `.new` is an unfinished first
            # write.
            text = self._read(self._path + ".new")
            if text is not None and not self._parse(text):
                files.discard(self._path + ".new")
            if not self._aliases:
                self._aliases = self._from_sessions()
                self._current = self._aliases[-1] if self._aliases else ""
        elif not self._parse(text):
            self._rebuild(text)

    def _read(self, path):
        if files.size(path) < 0:
            return None
        try:
            with open(path, "rb") as f:
                return f.read(4096)
        except OSError as e:
            raise files.wrap(e, path)

    def _parse(self, text):
        try:
            value = json_loads(text)
            aliases = value["sessions"]
            current = value["current_alias"]
            if value["chat_key"] != self.chat_key or not 1 <= len(aliases) <= _MOST:
                return False
            for i in range(len(aliases)):
                if not valid_alias(aliases[i]) or aliases[i] in aliases[:i]:
                    return False
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        if current not in aliases:
            return False
        self._aliases = aliases
        self._current = current
        return True

    def _from_sessions(self):
        # Aliases of this chat that have session files, oldest first as far as that is known.
        found = []
        start = self.chat_key + ":"
        for sid in self.store.sids(start):
            alias = sid[len(start) :]
            if valid_alias(alias) and alias not in found:
                found.append(alias)
        for i in range(1, _MOST + 1):
            alias = "default_{:02d}".format(i)
            path = self.store.root + "/" + session_file_name(start + alias)
            if alias not in found and files.size(path) > 0:
                found.append(alias)
        return found[:_MOST]

    def _rebuild(self, text):
        aliases = self._from_sessions() or [_FIRST]
        current = aliases[-1]
        for alias in aliases:
            if b'"current_alias":"' + alias.encode() + b'"' in text:
                current = alias
        try:
            files.replace(self._path, self._path + ".bad")
            self._set(aliases, current)
        except OSError as e:
            raise files.wrap(e, self._path)
        self._notices.append(
            "The list of this chat's sessions was damaged and is made again from the session"
            " files; the damaged one is {}.bad.".format(map_file_name(self.chat_key))
        )
