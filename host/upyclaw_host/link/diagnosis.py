"""What is wrong with a port on which no session begins, judged by what came from it instead.

Owns the sentences. Touches no port.
"""

from __future__ import annotations

import re

from upyclaw_host.errors import UserError

# The first traceback: "File" lines, then the error.
_CRASH = re.compile(r"Traceback[^\n]*\n(?:\s*File [^\n]*\n)+(?P<error>[^\n]*)")


def not_ours(port: str, said: str) -> UserError:
    """The prompt came again after a restart: no firmware, or one that fails."""
    crash = _CRASH.search(said)
    if crash and "upyclaw/" in crash.group():
        return UserError(
            f"upyclaw on the board at {port} fails to start ({crash['error'].strip()}): "
            f"see what is wrong with `upyclaw doctor --port {port}`, or install it again."
        )
    return UserError(
        f"The board on {port} runs MicroPython but not upyclaw: "
        f"put it there with `upyclaw install --board NAME --port {port}` (names: upyclaw boards)."
    )


def no_answer(port: str, heard: bool, said: str, timeout: float) -> UserError:
    """No session within `timeout` (s). `heard`: something came, `said` is the last of it."""
    if not heard:
        return UserError(
            f"No answer from {port} within {timeout:.0f} s: is the board powered, does "
            "it run upyclaw, and is nothing else using it?"
        )
    words = said.strip().splitlines()
    last = words[-1][:60] if words else ""
    return UserError(
        f"What answers on {port} is not upyclaw (it said {last!r}): check the port and "
        "the baud rate, or put the firmware on the board with `upyclaw install`."
    )
