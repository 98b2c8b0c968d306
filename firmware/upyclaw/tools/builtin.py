"""Tools every board has: the time, and the board's own state. They only read."""

import gc
import json
import os
import time

from upyclaw.compat import civil_time, mem_free, unix_time

_NOTHING = b'{"type":"object","properties":{}}'
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def zone_name(seconds):
    """`seconds` east of UTC as text: UTC, UTC+01:00, UTC-03:30."""
    if not seconds:
        return "UTC"
    minutes = abs(seconds) // 60
    sign = "+" if seconds > 0 else "-"
    return "UTC{}{:02d}:{:02d}".format(sign, minutes // 60, minutes % 60)


class GetTime:
    """Local date and time. `zone` is called for the seconds east of UTC."""

    name = "get_time"
    trusted = True
    description = "Tells the present local date, time and weekday."
    schema = _NOTHING

    def __init__(self, zone=None):
        self._zone = zone

    async def run(self, args, context):
        now = unix_time()
        if not now:
            return '{"ok":false,"error":"The clock of the board is not set; the time is unknown."}'
        zone = self._zone() if self._zone else 0
        year, month, day, hour, minute, second, weekday = civil_time(now + zone)
        return "{:04d}-{:02d}-{:02d} {:02d}:{:02d}:{:02d}, {}, {}".format(
            year, month, day, hour, minute, second, _DAYS[weekday], zone_name(zone)
        )


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
        gc.collect()
        uptime = max(0, int(time.time()) - self._start)
        info = {"board": self._board, "heap_free": mem_free(), "uptime_s": uptime}
        if hasattr(os, "statvfs"):
            stat = os.statvfs(self._root)
            size = stat[1] or stat[0]
            info["flash_free"] = stat[3] * size
            info["flash_size"] = stat[2] * size
        return json.dumps(info)


def builtin_tools(board="", root="/", zone=None):
    """The tools of this module."""
    return [GetTime(zone), DeviceInfo(board, root)]
