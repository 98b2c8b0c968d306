"""Tools every board has: the time, and the board's own state. They only read.

What they answer is in answers.py, loaded for a call.
"""

import time

from upyclaw.compat import unload

_NOTHING = b'{"type":"object","properties":{}}'


class GetTime:
    """Local date and time. `zone` is called for the seconds east of UTC."""

    name = "get_time"
    trusted = True
    description = "Tells the present local date, time and weekday."
    schema = _NOTHING

    def __init__(self, zone=None):
        self._zone = zone

    async def run(self, args, context):
        from upyclaw.tools.answers import clock

        unload("upyclaw.tools.answers")
        return clock(self._zone() if self._zone else 0)


class DeviceInfo:
    """Heap, flash and age of the board called `board`; `root` is a folder on its flash."""

    name = "device_info"
    trusted = True
    description = "Tells the board's type, free memory, free flash and time since start."
    schema = _NOTHING

    def __init__(self, board="", root="/"):
        self._board = board
        self._root = root
        # Not ticks: those wrap after days.
        self._start = int(time.time())

    async def run(self, args, context):
        from upyclaw.tools.answers import device

        unload("upyclaw.tools.answers")
        return device(self._board, self._root, self._start)


def builtin_tools(board="", root="/", zone=None):
    """The tools of this module."""
    return [GetTime(zone), DeviceInfo(board, root)]
