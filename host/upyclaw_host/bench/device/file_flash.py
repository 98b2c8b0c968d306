"""A flash in a file of the PC, for scripts that run in MicroPython: it takes no heap of theirs."""

BLOCK = 4096


class FileFlash:
    """Blocks of 4096 bytes in the file `path`, which exists and has its size; erased is 0xff."""

    def __init__(self, path):
        self._file = open(path, "r+b")
        self._count = self._file.seek(0, 2) // BLOCK
        self._blank = b"\xff" * 256

    def readblocks(self, block, buf, offset=0):
        self._file.seek(block * BLOCK + offset)
        self._file.readinto(buf)

    def writeblocks(self, block, buf, offset=0):
        self._file.seek(block * BLOCK + offset)
        self._file.write(buf)

    def ioctl(self, op, arg):
        if op == 4:
            return self._count
        if op == 5:
            return BLOCK
        if op == 6:
            self._file.seek(arg * BLOCK)
            for _ in range(BLOCK // 256):
                self._file.write(self._blank)
        return 0
