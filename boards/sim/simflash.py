"""The simulated board's flash: a block device on an image file that counts its wear.

Owns the image file and, beside it, the counter file: 16 bytes of head (`UPYWEAR1`, total reads as
u64), then for each block the number of programs and of erases (u32 each, little endian). Both are
always current: a process that is killed loses no count but some reads. Knows no file system.
"""

import struct

_HEAD = 16


class Flash:
    """`blocks` blocks of `block` bytes in the file `path`, counters in `wear`; both exist.

    The power is cut in the middle of the `cut`-th program or erase from now on (0: never): half of
    it is done, then `on_cut` is called, which must not return.
    """

    def __init__(self, path, wear, blocks, block, cut=0, on_cut=None):
        self._file = open(path, "r+b")
        self._wear = open(wear, "r+b")
        self._blocks = blocks
        self._block = block
        self._blank = b"\xff" * 256
        self._count = bytearray(4)
        head = bytearray(_HEAD)
        self._wear.readinto(head)
        self._reads = struct.unpack_from("<Q", head, 8)[0]

        self._left = cut
        self._on_cut = on_cut

    def _bump(self, position):
        count = self._count
        self._wear.seek(position)
        self._wear.readinto(count)
        struct.pack_into("<I", count, 0, struct.unpack_from("<I", count, 0)[0] + 1)
        self._wear.seek(position)
        self._wear.write(count)

    def readblocks(self, n, buf, offset=0):
        self._reads += 1
        self._file.seek(n * self._block + offset)
        self._file.readinto(buf)

    def writeblocks(self, n, buf, offset=0):
        self._file.seek(n * self._block + offset)
        if self._left:
            self._left -= 1
            if not self._left:
                self._file.write(memoryview(buf)[: len(buf) // 2])
                self._on_cut()
        self._file.write(buf)
        self._bump(_HEAD + 8 * n)

    def ioctl(self, op, arg):
        if op == 4:
            return self._blocks
        if op == 5:
            return self._block
        if op == 6:
            self._file.seek(arg * self._block)
            rows = self._block // 256
            if self._left:
                self._left -= 1
                if not self._left:
                    rows //= 2
            for _ in range(rows):
                self._file.write(self._blank)
            if rows < self._block // 256:
                self._on_cut()
            self._bump(_HEAD + 8 * arg + 4)
            self._wear.seek(8)
            self._wear.write(struct.pack("<Q", self._reads))
        return 0
