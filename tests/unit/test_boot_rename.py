"""boot.py mends what a power cut inside a rename leaves: LittleFS hides a file that is there."""

from __future__ import annotations

import json
from pathlib import Path

from unit.on_micropython import micropython
from upyclaw_host.source import open_source

BOOT = Path(__file__).resolve().parents[2] / "firmware" / "boot.py"

# A folder so full that LittleFS keeps it in several pieces; a rename from the first into the last
# is cut at the n-th program or erase. What is seen after a restart, without and with boot.py.
SCRIPT = """
import json, os, vfs
boot = open({boot!r}).read()

class Ram:
    def __init__(self):
        self.data = bytearray(4096 * 64)
        self.left = 0
        self.off = False
    def _cut(self):
        if self.left:
            self.left -= 1
            self.off = not self.left
            return self.off
        return False
    def readblocks(self, n, buf, off=0):
        buf[:] = memoryview(self.data)[n * 4096 + off:n * 4096 + off + len(buf)]
    def writeblocks(self, n, buf, off=0):
        if self.off:
            return -5
        size = len(buf) // 2 if self._cut() else len(buf)
        at = n * 4096 + off
        self.data[at:at + size] = bytes(memoryview(buf)[:size])
        return -5 if self.off else 0
    def ioctl(self, op, arg):
        if op in (4, 5):
            return 64 if op == 4 else 4096
        if op == 6:
            if self.off or self._cut():
                return -5
            self.data[arg * 4096:arg * 4096 + 4096] = b"\\xff" * 4096
        return 0

ram = Ram()
vfs.VfsLfs2.mkfs(ram, progsize=64)
os.umount("/")
vfs.mount(vfs.VfsPosix({folder!r}), "/host")
names = ["s_%02d_name_of_a_session_file.log" % i for i in range(60)]
vfs.mount(vfs.VfsLfs2(ram, progsize=64), "/")
for name in names:
    with open("/" + name, "w") as f:
        f.write(name)
with open("/" + names[0] + ".new", "w") as f:
    f.write(names[59])
os.umount("/")
before = bytes(ram.data)
rows = []
for n in range(1, 5):
    row = []
    for mend in (False, True):
        ram = Ram()
        ram.data[:] = before
        vfs.mount(vfs.VfsLfs2(ram, progsize=64), "/")
        ram.left = n
        try:
            os.rename("/" + names[0] + ".new", "/" + names[59])
        except OSError:
            pass
        cut, ram.off = ram.off, False
        os.umount("/")
        with open("/host/cut%d.img" % n, "wb") as f:
            f.write(ram.data)
        vfs.mount(vfs.VfsLfs2(ram, progsize=64), "/")
        if mend:
            exec(boot, {{}})
        listed = set(os.listdir("/"))
        whole = 0
        for name in names:
            try:
                whole += open("/" + name).read() == name
            except OSError:
                pass
        row.append([cut, whole, sum(name in listed for name in names)])
        os.umount("/")
    rows.append(row)
print(json.dumps(rows))
"""


def test_no_file_stays_hidden(tmp_path: Path) -> None:
    script = tmp_path / "cuts.py"
    script.write_text(SCRIPT.format(boot=str(BOOT), folder=str(tmp_path)))
    rows = json.loads(micropython(script).strip().splitlines()[-1])
    without, mended = ([row[i] for row in rows] for i in (0, 1))
    assert any(cut for cut, _, _ in mended) and not mended[-1][0]
    assert all((whole, listed) == (60, 60) for _, whole, listed in mended), mended
    # The reason for it: LittleFS alone loses sight of a file that nobody touched.
    assert any(whole < 60 and listed < 60 for _, whole, listed in without), without
    # A dump of that flash shows every file too, and is not changed by it.
    for image in sorted(tmp_path.glob("*.img")):
        before = image.read_bytes()
        assert before[8:16] == b"littlefs"
        source = open_source(image)
        found = {path for path in source.files() if path.endswith(".log")}
        assert len(found) == 60 and all(source.read(path) == path.encode() for path in found)
        assert not source.findings and image.read_bytes() == before
