"""Stored text as quoted data for a prompt: it must never read as an order or a role (B31)."""

from .cuts import clean

_ROLES = ("system", "assistant", "developer", "user", "tool", "human")


def quoted(text):
    """`text` as quoted data for a prompt: one line, no quotes, role marks or code fences (B31)."""
    text = clean(text).replace('"', "'").replace("`", "'").replace("<|", "").replace("|>", "")
    low = text.encode().lower().decode()
    for role in _ROLES:
        for mark in (role + ":", role + " :", "[" + role + "]", "<" + role + ">"):
            at = low.find(mark)
            while at >= 0:
                text = text[:at] + text[at + len(mark) :]
                low = low[:at] + low[at + len(mark) :]
                at = low.find(mark)
    return '"' + text.strip(" ") + '"'
