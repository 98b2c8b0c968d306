"""MicroPython images and flash contents for tests, made from bytes."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading

from esp32_mock_bootloader import server

from upyclaw_host.boards import CHIPS
from upyclaw_host.install.partitions import TABLE_OFFSET

NVS = ("nvs", 1, 2, 0x9000, 0x6000)
FACTORY = ("factory", 0, 0, 0x10000, 0x1F0000)
VFS = ("vfs", 1, 0x81, 0x200000, 0x200000)


def table(*entries: tuple[str, int, int, int, int]) -> bytes:
    """A partition table with its checksum: (name, kind, subkind, offset, size) a line."""
    rows = b"".join(
        struct.pack("<2sBBII16sI", b"\xaa\x50", kind, sub, offset, size, name.encode(), 0)
        for name, kind, sub, offset, size in entries
    )
    digest = b"\xeb\xeb" + b"\xff" * 14 + hashlib.md5(rows).digest()
    return (rows + digest).ljust(0xC00, b"\xff")


def micropython(
    chip: str,
    *,
    partitions: bytes | None = None,
    version: str = "v1.28.0 on 2026-04-06",
    size: int = 400_000,
) -> bytes:
    """An image as micropython.org offers it: header for `chip`, table, an app of random bytes."""
    described = CHIPS[chip]
    data = bytearray(random.Random(chip).randbytes(size))
    head = struct.pack("<BBBBI", 0xE9, 1, 2, 0x20, 0x40080000)
    data[:24] = head + bytes(4) + struct.pack("<H", described.image_id) + bytes(10)
    at = TABLE_OFFSET - described.offset
    rows = table(NVS, FACTORY) if partitions is None else partitions
    data[at : at + len(rows)] = rows
    words = b"MicroPython " + version.encode()
    data[0x20000 : 0x20000 + len(words)] = words
    return bytes(data)


class MockChip:
    """esp32-mock-bootloader in a thread: a chip that esptool talks to, at `url`.

    `flash` is its flash, to be filled and looked at. Its own server gives up a read when esptool
    is silent for 50 ms, which a busy computer is at times; here it waits for two seconds.
    """

    def __init__(self, chip: str, flash_size: int = 0x400000) -> None:
        self._image = server.FlashImage()
        self._image.data = bytearray(b"\xff" * flash_size)
        self._chip = chip
        self._stop = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.1)
        self.url = f"socket://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def flash(self) -> bytearray:
        return self._image.data

    def put(self, offset: int, data: bytes) -> None:
        """Have something in the flash that was there before."""
        self.flash[offset : offset + len(data)] = data

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            line = server.BootloaderConnection(sock=connection)
            server.handle_client(line, self._stop, self._chip, flash=self._image)

    def __enter__(self) -> MockChip:
        self._patience, server._CLIENT_RECV_TIMEOUT = server._CLIENT_RECV_TIMEOUT, 2.0
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)
        self._socket.close()
        server._CLIENT_RECV_TIMEOUT = self._patience
