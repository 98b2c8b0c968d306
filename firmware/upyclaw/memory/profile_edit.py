"""Changing a profile file, with checks.

Owns: what may stand in one. Must not know the long-term items. Loaded for an edit.
"""

from ..storage.files import make_dirs, write_file
from .profile import LIMIT
from .safety import mask


def write(profile, name, text):
    """See Profile.write."""
    path = profile.path(name)
    text = checked(text)
    make_dirs(profile.root)
    write_file(path, text.encode() + b"\n")
    return text


def edit(profile, name, old, new):
    """See Profile.edit."""
    text = profile.read(name)
    if old:
        if text.count(old) != 1:
            raise ValueError(
                "The text to replace stands {} times in {}.md, not once.".format(
                    text.count(old), name
                )
            )
        text = text.replace(old, new)
    else:
        text = text + "\n" + new if text else new
    return write(profile, name, text)


def checked(text):
    """`text` fit for a profile file. ValueError if it is too long or holds role marks."""
    out = []
    for line in text.split("\n"):
        line = bytes([c for c in line.encode() if c >= 32 and c != 127]).decode().rstrip(" ")
        low = line.encode().lower().lstrip()
        if low.startswith((b"system:", b"<|", b"assistant:", b"[system]")):
            raise ValueError("A profile file cannot hold role marks such as `system:`.")
        out.append(mask(line))
    text = "\n".join(out).strip()
    if len(text.encode()) > LIMIT:
        raise ValueError(
            "A profile file holds at most {} bytes; this text has {}.".format(
                LIMIT, len(text.encode())
            )
        )
    return text
