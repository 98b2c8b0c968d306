"""Start-up of the board: nothing but what must come before main.py.

The ESP32 port mounts the flash with progsize 32. With 64 LittleFS caches 256 bytes instead of 128,
which is what the firmware's flash figures and the simulated board's rest on.
"""

import gc

# Collect after every 8 KB from the first import on. Left alone MicroPython collects when the heap
# is used up; by then what the imports leave is strewn over it, and no 10 KB are free in one piece.
gc.threshold(8192)


def _remount():
    try:
        import vfs
        from flashbdev import bdev
    except ImportError:
        # Not an ESP32: the simulated board mounts this way from the start.
        return
    try:
        # Opens it a second time, reading only: if that fails, the first mount is still as it was.
        flash = vfs.VfsLfs2(bdev, progsize=64)  # type: ignore[abstract]
    except Exception:
        return
    vfs.umount("/")
    try:
        vfs.mount(flash, "/")
    except OSError:
        vfs.mount(bdev, "/")


def _settle():
    import os

    # A cut inside a rename makes LittleFS hide a neighbour of that file until something is
    # written; an attempt to remove what is not there makes it put that right.
    try:
        os.remove("/upyclaw.nothing")
    except OSError:
        pass
    # A whole update that the power went before: its own script puts it in place (docs/install.md).
    try:
        with open("/upyclaw.ready/settle.py") as f:
            script = f.read()
    except OSError:
        return
    exec(script, {})


_remount()
_settle()
del _remount, _settle
