"""firmware/boot.py mounts an ESP32's flash anew without losing anything, also when that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.on_micropython import micropython

BOOT = Path(__file__).resolve().parents[2] / "firmware" / "boot.py"

# A stand-in for the ESP32 port: flash mounted at `/` with progsize 32, and its module flashbdev.
PORT = """
import os, sys, vfs
boot = open({boot!r}).read()
vfs_before = vfs.VfsLfs2

class Ram:
    blocks = [bytearray(4096) for _ in range(32)]
    largest = 0
    def readblocks(self, n, buf, off=0):
        Ram.largest = max(Ram.largest, len(buf))
        buf[:] = memoryview(self.blocks[n])[off:off + len(buf)]
    def writeblocks(self, n, buf, off=0):
        self.blocks[n][off:off + len(buf)] = buf
    def ioctl(self, op, arg):
        return {{4: 32, 5: 4096}}.get(op, 0)

class flashbdev:
    bdev = Ram()
{prepare}
os.umount("/")
vfs.VfsLfs2.mkfs(flashbdev.bdev, progsize=32)
os.mount(vfs.VfsLfs2(flashbdev.bdev, progsize=32), "/")
with open("/config.json", "w") as f:
    f.write("y" * 600)
Ram.largest = 0
exec(boot)
assert "_remount" not in globals()
os.stat("/config.json")
with open("/new", "w") as f:
    f.write("z")
assert open("/config.json").read() == "y" * 600
print("cache", Ram.largest)
"""


def run(prepare: str, tmp_path: Path) -> str:
    script = tmp_path / "port.py"
    script.write_text(PORT.format(boot=str(BOOT), prepare=prepare))
    return micropython(script).strip()


@pytest.mark.parametrize(
    ("prepare", "cache"),
    [
        ("sys.modules['flashbdev'] = flashbdev", "cache 256"),
        ("", "cache 128"),
        ("sys.modules['flashbdev'] = type('F', (), {'bdev': None})", "cache 128"),
    ],
    ids=["esp32", "no-flashbdev", "no-partition"],
)
def test_remount(prepare: str, cache: str, tmp_path: Path) -> None:
    assert run(prepare, tmp_path) == cache
