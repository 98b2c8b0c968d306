"""The module `machine` of the simulated board: what an app may ask of the chip itself.

A reset is a byte to the simulator, which ends this process and starts the next one.
"""

import time

PWRON_RESET = 1
HARD_RESET = 2
SOFT_RESET = 5

_control = None
_cause = PWRON_RESET
_id = b"\x24\x0a\xc4\x00\x51\x4d"


def connect(control, cause):
    """Where requests go (a file), and why this run started. For simboot alone."""
    global _control, _cause
    _control = control
    _cause = cause


def listen():
    """The board's own code comes next: from now on Ctrl-C is for it. For simboot alone."""
    _control.write(b"L")


def _end(request):
    _control.write(request)
    while True:
        try:
            time.sleep(1)
        except BaseException:
            # Ctrl-C cannot stop a chip that resets.
            pass


def reset():
    """Start the board again as after power-on. Does not return."""
    _end(b"R")


def soft_reset():
    """Start the interpreter again. Does not return."""
    _end(b"S")


def die():
    """The board cannot start: tell the simulator. Does not return."""
    _end(b"F")


def cut():
    """The power goes: tell the simulator. Does not return."""
    _end(b"C")


def reset_cause():
    """PWRON_RESET, HARD_RESET or SOFT_RESET."""
    return _cause


def unique_id():
    """Six bytes, the same for every simulated board."""
    return _id


def freq():
    """Clock of the chip in Hz."""
    return 240000000
