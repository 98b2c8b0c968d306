"""Runs under MicroPython: a flash image in a file, for scripts whose flash the PC reads later."""

import vfs


class Blocks:
    """The image file as a block device of 4096-byte blocks."""

    def __init__(self, path):
        self.file = open(path, "r+b")  # noqa: SIM115  held for the whole run
        self.count = self.file.seek(0, 2) // 4096

    def readblocks(self, number, buf, off=0):
        self.file.seek(number * 4096 + off)
        self.file.readinto(buf)

    def writeblocks(self, number, buf, off=0):
        self.file.seek(number * 4096 + off)
        self.file.write(buf)

    def ioctl(self, op, arg):
        if op == 4:
            return self.count
        if op == 5:
            return 4096
        if op == 6:
            self.file.seek(arg * 4096)
            self.file.write(b"\xff" * 4096)
        elif op in (2, 3):
            self.file.flush()
        return 0


def mount(path):
    """Put a fresh LittleFS on the image and mount it at /flash; returns the device."""
    blocks = Blocks(path)
    vfs.VfsLfs2.mkfs(blocks, progsize=64)
    vfs.mount(vfs.VfsLfs2(blocks, progsize=64), "/flash")
    return blocks


def umount(blocks):
    """What was written is in the file afterwards."""
    vfs.umount("/flash")
    blocks.file.close()
