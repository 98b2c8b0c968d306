"""A RAM flash that counts what LittleFS does to it, for scripts that run in MicroPython.

Owns the block device alone: who mounts it, and what is counted between, is the script's.
"""

BLOCK = 4096


class CountingFlash:
    """`blocks` blocks of 4096 bytes, 2 MiB if not told; counts erases, bytes programmed and read.

    A block takes memory from its first erase on: the collector has less to look through.
    """

    def __init__(self, blocks=512):
        self.blocks = [None] * blocks
        self.blank = bytes(b"\xff" * BLOCK)
        self.erases = self.programmed = self.bytes_read = 0

    def readblocks(self, n, buf, offset=0):
        block = self.blocks[n] or self.blank
        buf[:] = memoryview(block)[offset : offset + len(buf)]
        self.bytes_read += len(buf)

    def writeblocks(self, n, buf, offset=0):
        self.programmed += len(buf)
        self.blocks[n][offset : offset + len(buf)] = buf

    def ioctl(self, op, arg):
        if op == 4:
            return len(self.blocks)
        if op == 5:
            return BLOCK
        if op == 6:
            self.erases += 1
            self.blocks[arg] = bytearray(self.blank)
        return 0
