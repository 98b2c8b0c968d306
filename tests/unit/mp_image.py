"""Runs under MicroPython: a flash image in a file, for scripts whose flash the PC reads later."""

import vfs
from file_flash import FileFlash


def mount(path):
    """Put a fresh LittleFS on the image, which exists and has its size, and mount it at /flash."""
    flash = FileFlash(path)
    vfs.VfsLfs2.mkfs(flash, progsize=64)
    vfs.mount(vfs.VfsLfs2(flash, progsize=64), "/flash")


def umount():
    """What was written is in the file afterwards."""
    vfs.umount("/flash")
