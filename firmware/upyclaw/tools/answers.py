"""What the tools of builtin.py answer. Loaded for a call."""

import gc
import json
import os
import time

from upyclaw.compat import civil_time, mem_free, unix_time

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def zone_name(seconds):
    """`seconds` east of UTC as text: UTC, UTC+01:00, UTC-03:30."""
    if not seconds:
        return "UTC"
    minutes = abs(seconds) // 60
    sign = "+" if seconds > 0 else "-"
    return "UTC{}{:02d}:{:02d}".format(sign, minutes // 60, minutes % 60)


def clock(zone):
    """Local date, time and weekday, `zone` seconds east of UTC."""
    now = unix_time()
    if not now:
        return '{"ok":false,"error":"The clock of the board is not set; the time is unknown."}'
    year, month, day, hour, minute, second, weekday = civil_time(now + zone)
    return "{:04d}-{:02d}-{:02d} {:02d}:{:02d}:{:02d}, {}, {}".format(
        year, month, day, hour, minute, second, _DAYS[weekday], zone_name(zone)
    )


def device(board, root, start):
    """JSON of heap, flash and age of the board; it started at `start` of `time.time()`."""
    gc.collect()
    uptime = max(0, int(time.time()) - start)
    info = {"board": board, "heap_free": mem_free(), "uptime_s": uptime}
    if hasattr(os, "statvfs"):
        stat = os.statvfs(root)
        size = stat[1] or stat[0]
        info["flash_free"] = stat[3] * size
        info["flash_size"] = stat[2] * size
    return json.dumps(info)
