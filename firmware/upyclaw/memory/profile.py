"""The three profile files: soul.md (what the agent is), identity.md (its card), user.md (the
user).

Owns: their defaults, their limits, checked edits (SPEC-context-and-tools §1). Must not know the
long-term items: behaviour goes here, facts go there. A file is replaced whole, never written in
place.
"""

from ..compat import const, utf8_clean
from ..storage.files import StorageError, remove, size, wrap

# Bytes of one file. All three are sent with every turn.
LIMIT = const(1500)

NAMES = ("user", "soul", "identity")
_TITLES = {"user": "User Profile", "soul": "Agent Soul", "identity": "Agent Identity Card"}
_DEFAULTS = {
    "user": "",
    # What turn.py tells every model is not said twice.
    "soul": "Be friendly and plain. Say so when you do not know something; never make up facts"
    " about the user.",
    "identity": "- Name: upyclaw\n- Role: personal assistant\n- Home: an ESP32 board",
}


class Profile:
    """The files in folder `root`. Methods raise ValueError with a sentence for the user, or
    StorageError."""

    def __init__(self, root):
        self.root = root

    def path(self, name):
        """Path of the file `name` ("user", "soul", "identity"). ValueError for another name."""
        if name not in NAMES:
            raise ValueError(
                "There is no profile file {}: it is user, soul or identity.".format(name)
            )
        return "{}/{}.md".format(self.root, name)

    def read(self, name):
        """The text of a file, its default if there is none; at most LIMIT bytes, in one piece."""
        path = self.path(name)
        n = size(path)
        if n < 0:
            return _DEFAULTS[name]
        try:
            with open(path, "rb") as f:
                # No more than there is: MicroPython makes room for all that is asked for.
                data = f.read(min(n, LIMIT))
        except OSError as e:
            raise wrap(e, path)
        # A file written by hand may be longer and be cut inside a character.
        text = utf8_clean(data)
        while text and text.endswith("\ufffd"):
            text = text[:-1]
        return text.strip()

    def write(self, name, text):
        """Replace a file. The text is cleaned of control characters and masked secrets."""
        from .profile_edit import write

        return write(self, name, text)

    def edit(self, name, old, new):
        """Replace the one place where `old` stands by `new`; an empty `old` appends a line."""
        from .profile_edit import edit

        return edit(self, name, old, new)

    def reset(self, name):
        """Go back to the default."""
        remove(self.path(name))

    def pieces(self, defaults=True):
        """Yield the section for the prompt, file by file; nothing if all are empty. `defaults`:
        with the files that nobody has written yet."""
        for name in NAMES:
            if not defaults and size(self.path(name)) < 0:
                continue
            try:
                text = self.read(name)
            except StorageError:
                continue
            if text:
                yield "{} ({}.md):\n{}\n\n".format(_TITLES[name], name, text).encode()
