"""Starts that failed: the board tries again, and after three in a row is in safe mode (B55).

Owns `/failed_starts.txt`: a line for each failed start in a row, what went wrong. Imported when a
start has failed, by main.py, and while that file is there. Must need as little as it can.
"""

import os

PATH = "/failed_starts.txt"
_IN_A_ROW = 3
_PAUSE = 2  # seconds before the next start: time for Ctrl-C
_REASON = 120  # characters kept of one


def reasons():
    """What the failed starts in a row died of, the oldest first; [] after a good start."""
    try:
        with open(PATH) as f:
            return f.read().split("\n")[:-1]
    except (OSError, UnicodeError):
        return []


def start_failed(error):
    """Note that the start ended with `error` and start the chip again.

    Raises `error` if safe mode itself failed or nothing can be noted: then the REPL has the board.
    """
    if len(reasons()) >= _IN_A_ROW:
        raise error
    reason = repr(error)[:_REASON].replace("\n", " ")
    try:
        with open(PATH, "a") as f:
            f.write(reason + "\n")
    except OSError:
        raise error
    print("upyclaw: the start failed ({}); the board starts again.".format(reason))
    import time

    time.sleep(_PAUSE)
    import machine

    machine.reset()


def restrict(settings):
    """None, or what to tell the user: then `settings` are those of safe mode.

    The serial chat and the sessions are left; memory, Wi-Fi, page and tools are not.
    """
    failures = reasons()
    if len(failures) < _IN_A_ROW:
        return None
    settings["memory"]["mode"] = "off"
    settings["web"]["enabled"] = "off"
    settings["prompt"]["tools"] = "off"
    settings["model"]["base_url"] = ""
    settings["network"]["wifi"] = "off"
    return (
        "Safe mode after {} failed starts (the last: {}): only the serial chat runs, without "
        "memory, tools and Wi-Fi; restart the board to try the whole again.".format(
            len(failures), failures[-1]
        )
    )


def forget():
    """The start was a good one."""
    os.remove(PATH)
