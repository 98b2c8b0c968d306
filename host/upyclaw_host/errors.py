"""Errors that a person sees: one sentence, never a traceback, never a key."""

from __future__ import annotations


class UserError(Exception):
    """What happened, which setting, file or port, and what to do, in one sentence.

    `exit_code`: 1 for findings or a failed turn, 2 for wrong use or unreadable input (CLI.md).
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
