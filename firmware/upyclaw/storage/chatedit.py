"""Changes a chat's list of sessions: new, switch, delete, and making a damaged one again.

Owns: the sentences of these commands. Imported by ChatMap for one call. Functions take the map
first and return (done, sentence) as ChatMap says.
"""

from upyclaw.storage import files
from upyclaw.storage.chatmap import FIRST, MOST, map_file_name, valid_alias
from upyclaw.storage.codec import session_file_name
from upyclaw.storage.files import StorageError


def new(chats, alias=""):
    """Add a session and switch to it; without `alias` it gets the smallest free default_NN."""
    if alias and not valid_alias(alias):
        return False, (
            'Cannot create session "{}": a name has 1 to 32 letters, digits, "_" or "-".'
        ).format(alias)
    if alias in chats.aliases:
        return False, (
            'Cannot create session "{}": a session with that name already exists.'
        ).format(alias)
    if len(chats.aliases) >= MOST:
        return False, "This chat has {} sessions, that is the most: delete one.".format(MOST)
    number = 1
    while not alias:
        name = "default_{:02d}".format(number)
        if name not in chats.aliases:
            alias = name
        number += 1
    sid = chats.sid(alias)
    owner = chats.store.rare("owner", session_file_name(sid))
    if owner is not None and owner != sid:
        return False, (
            'Cannot create session "{}": its file name belongs to {}; choose another name.'
        ).format(alias, owner)
    return _change(chats, chats.aliases + [alias], alias, "Started a new session: " + alias)


def switch(chats, alias):
    """Make `alias` the current session."""
    chats.current()
    if alias not in chats.aliases:
        return False, _unknown("switch to", alias)
    return _change(chats, chats.aliases, alias, "Switched to session: " + alias)


def delete(chats, alias):
    """Delete session `alias`, its history first; not the current one."""
    chats.current()
    if alias not in chats.aliases:
        return False, _unknown("delete", alias)
    if alias == chats.alias:
        return False, (
            'Cannot delete the current session "{}". Switch to another session first.'
        ).format(alias)
    try:
        chats.store.delete(chats.sid(alias))
    except StorageError as e:
        return False, str(e)
    rest = [a for a in chats.aliases if a != alias]
    return _change(chats, rest, chats.alias, "Deleted session: " + alias)


def _unknown(what, alias):
    return (
        'Cannot {} session "{}": no such session. Send /session list to list sessions.'
    ).format(what, alias)


def _change(chats, aliases, current, sentence):
    left = chats.alias
    try:
        chats.put(aliases, current)
        if left and left != current:
            chats.store.leave(chats.sid(left))
    except StorageError as e:
        return False, str(e)
    return True, sentence


def from_sessions(chats, start):
    """Aliases of this chat that have session files, oldest first as far as that is known.

    `start`: what their session ids begin with.
    """
    found = []
    for sid in chats.store.rare("sids", start):
        alias = sid[len(start) :]
        if valid_alias(alias) and alias not in found:
            found.append(alias)
    for i in range(1, MOST + 1):
        alias = "default_{:02d}".format(i)
        path = chats.store.root + "/" + session_file_name(start + alias)
        if alias not in found and files.size(path) > 0:
            found.append(alias)
    return found[:MOST]


def rebuild(chats, text):
    """Set the damaged map `text` aside and make it again. Raises StorageError."""
    aliases = from_sessions(chats, chats.sid("")) or [FIRST]
    current = aliases[-1]
    for alias in aliases:
        if b'"current_alias":"' + alias.encode() + b'"' in text:
            current = alias
    try:
        files.replace(chats.path, chats.path + ".bad")
        chats.put(aliases, current)
    except OSError as e:
        raise files.wrap(e, chats.path)
    chats.notices.append(
        "The list of this chat's sessions was damaged and is made again from the session"
        " files; the damaged one is {}.bad.".format(map_file_name(chats.chat_key))
    )
