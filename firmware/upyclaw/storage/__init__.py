"""Everything that touches flash for sessions; see session.py for what a turn costs."""

from upyclaw.storage.codec import (
    FINAL,
    RESULT,
    TOOL,
    USER,
    fnv1a,
    json_escape,
    session_file_name,
    user_record,
)
from upyclaw.storage.files import FlashFull, SessionBlocked, StorageError
from upyclaw.storage.store import SessionStore

__all__ = (
    "FINAL",
    "RESULT",
    "TOOL",
    "USER",
    "FlashFull",
    "SessionBlocked",
    "SessionStore",
    "StorageError",
    "fnv1a",
    "json_escape",
    "session_file_name",
    "user_record",
)
