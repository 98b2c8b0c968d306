"""A full or failing flash takes no saved word, is told, and is over when there is room (B46, B49).

The flash here is a small one of its own under MicroPython; the file faults run on both runtimes.
"""

import gc
import os
import sys

from stored import put, record, records

from upyclaw.storage import (
    FINAL,
    RESULT,
    TOOL,
    USER,
    FlashFull,
    SessionStore,
    StorageError,
    files,
    index,
    session,
    user_record,
)

SID = "chat:serial:local:default_01"
MICROPYTHON = sys.implementation.name == "micropython"
TIMEOUT = 120


class Flash:
    """Blocks in RAM that fail with `error` once `left` programs and erases are used up."""

    def __init__(self, blocks):
        self.image = bytearray(b"\xff" * (blocks * 4096))
        self.blocks = blocks
        self.left = -1
        self.error = 28
        self.ops = 0

    def _count(self):
        self.ops += 1
        if self.left == 0:
            return -self.error
        if self.left > 0:
            self.left -= 1
        return 0

    def readblocks(self, block, buf, offset=0):
        at = block * 4096 + offset
        buf[:] = memoryview(self.image)[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        wrong = self._count()
        if not wrong:
            at = block * 4096 + offset
            self.image[at : at + len(buf)] = buf
        return wrong

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return 4096
        if op == 6:
            wrong = self._count()
            if not wrong:
                self.image[arg * 4096 : arg * 4096 + 4096] = b"\xff" * 4096
            return wrong
        return 0


def mount(flash, fat=False, fresh=True):
    import vfs

    kind = vfs.VfsFat if fat else vfs.VfsLfs2
    try:
        # A test that failed left its own.
        vfs.umount("/small")
    except OSError:
        pass
    gc.collect()
    if fresh:
        if fat:
            kind.mkfs(flash)
        else:
            kind.mkfs(flash, progsize=64)
    vfs.mount(kind(flash) if fat else kind(flash, progsize=64), "/small")


def umount():
    import vfs

    vfs.umount("/small")


def need_micropython():
    if not MICROPYTHON:
        print("SKIP: needs a block device")
    return MICROPYTHON


def answer(n, size=300):
    return b'{"role":"assistant","content":"%d' % n + b"a" * size + b'"}'


def turn(s, n, size=300):
    s.add_user(user_record("question %d " % n))
    put(s, FINAL, answer(n, size))
    s.finish()


def test_the_reserve_is_kept_and_deleting_makes_room(root):
    if not need_micropython():
        return
    mount(Flash(40))
    store = SessionStore("/small/s", reserve=8)
    turn(store.open("other"), 0, 30000)
    s = store.open(SID)
    done = 0
    try:
        while done < 2000:
            turn(s, done, 2000)
            done += 1
    except FlashFull as e:
        assert "/session delete" in str(e) and "instance other (29 KB)" in str(e), e
    assert 5 < done < 100
    assert files.space("/small")[0] >= 7
    before = records(s)
    assert len(before) >= 2 * done
    # It stays refused, nothing is harmed, and reading goes on.
    for _ in range(3):
        try:
            s.add_user(user_record("more"))
        except FlashFull:
            pass
        else:
            assert False
    assert records(s)[: 2 * done] == before[: 2 * done]
    assert store.delete("other")
    turn(s, 7777)
    assert record(s, s.count - 1) == answer(7777)
    s.release()
    umount()


def test_compaction_without_room_leaves_all_and_works_later(root):
    # B46: a session that must be compacted, and not enough free blocks for the new pair.
    if not need_micropython():
        return
    mount(Flash(64))
    store = SessionStore("/small/s", limit=60000, reserve=2)
    s = store.open(SID)
    n = 0
    while s.size < 59000:
        s.add_user(user_record("question %d " % n + "q" * 300))
        put(s, TOOL, b'{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}')
        put(s, RESULT, b'[{"role":"tool","tool_call_id":"c","content":"%s"}]' % (b"r" * 3000))
        put(s, FINAL, answer(n, 500))
        s.finish()
        n += 1
    s.take_notices()
    with open("/small/filler", "wb") as f:
        while files.space("/small")[0] > 5:
            f.write(b"x" * 4096)
            f.flush()
    before = records(s)
    turn(s, 1, 2500)
    assert s.size > 60000 and records(s)[: len(before)] == before
    notices = s.take_notices()
    assert len(notices) == 1 and "/session delete" in notices[0], notices
    # Told once, not at each turn.
    turn(s, 2, 100)
    assert s.take_notices() == []
    assert [x for x in os.listdir("/small/s") if x.endswith(".new")] == []
    os.remove("/small/filler")
    store.changed()
    turn(s, 3, 100)
    assert s.size <= 60000 and "removed" in s.take_notices()[0]
    s.release()
    umount()


def test_the_limit_follows_the_flash(root):
    if not need_micropython():
        return
    mount(Flash(32))
    store = SessionStore("/small/s")
    assert store.limit == 16 * 4096
    assert "session.limit" in store.take_notices()[0]
    umount()


def tell(s, said):
    """Three kinds of turns; `said` collects what was acknowledged."""
    for n in range(3):
        user = user_record("question %d " % n + "x" * 200 * n)
        s.add_user(user)
        said.append(user)
        if n:
            call = b'{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}'
            result = b'[{"role":"tool","tool_call_id":"c","content":"%s"}]' % (b"r" * 600)
            put(s, TOOL, call)
            put(s, RESULT, result)
            s.sync()
            said.append(call)
            said.append(result)
        put(s, FINAL, answer(n))
        s.finish()
        said.append(answer(n))
    s.close()


def test_a_flash_that_fails_at_any_operation(root):
    if not need_micropython():
        return
    flash = Flash(48)
    mount(flash)
    store = SessionStore("/small/s", reserve=2)
    turn(store.open(SID), 100)
    store.close(store.open(SID))
    umount()
    start = bytes(flash.image)
    for error in (28, 5):
        k = 0
        while True:
            flash.image[:] = start
            mount(flash, fresh=False)
            said = [user_record("question 100 "), answer(100)]
            s = SessionStore("/small/s", reserve=2).open(SID)
            flash.left = k
            flash.error = error
            failed = False
            try:
                tell(s, said)
            except StorageError as e:
                failed = True
                assert isinstance(e, FlashFull) == (error == 28), e
                # The chat goes on: what is on flash stays readable.
                assert records(s)[: len(said)] == said, k
            healed = flash.left != 0
            flash.left = -1
            s.release()
            umount()
            mount(flash, fresh=False)
            store = SessionStore("/small/s", reserve=2)
            store.clean()
            s = store.open(SID)
            got = records(s)
            assert got[: len(said)] == said, (error, k, len(got), len(said))
            assert len(got) <= len(said) + 2
            assert s.take_notices() == []
            turn(s, 5)
            assert record(s, s.count - 1) == answer(5)
            s.release()
            umount()
            if not failed and healed:
                break
            k += 1
        assert k > 20


class Faulty:
    """A file that fails in its n-th write, flush or close; half of what it wrote may stay."""

    count = 0
    at = -1

    def __init__(self, f):
        self._f = f

    def _step(self, data=None):
        Faulty.count += 1
        if Faulty.count == Faulty.at:
            if data:
                self._f.write(bytes(data)[: len(data) // 2])
            raise OSError(28)

    def write(self, data):
        self._step(data)
        return self._f.write(data)

    def flush(self):
        self._step()
        self._f.flush()

    def close(self):
        self._f.close()
        self._step()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def seek(self, *where):
        return self._f.seek(*where)

    def read(self, n=-1):
        return self._f.read(n)

    def readinto(self, buf):
        return self._f.readinto(buf)


def faulty_open(path, mode="r"):
    f = open(path, mode)
    return Faulty(f) if ".log" in path and mode != "rb" else f


def test_files_that_are_torn_when_writing_fails(root):
    # What FAT does, and what no file system of ours does on LittleFS: half a write stays.
    for n in range(1, 200):
        folder = root + "/%d" % n
        said = []
        session.open = index.open = faulty_open
        Faulty.count, Faulty.at = 0, n
        failed = False
        s = None
        try:
            s = SessionStore(folder).open(SID)
            tell(s, said)
        except StorageError:
            failed = True
        finally:
            del session.open
            del index.open
        if s:
            s.release()
        s = SessionStore(folder).open(SID)
        got = records(s)
        assert got[: len(said)] == said, (n, len(said), len(got))
        turn(s, 9)
        s = SessionStore(folder).open(SID)
        assert record(s, s.count - 1) == answer(9) and records(s)[: len(said)] == said
        assert [s.entry(i)[2] for i in range(s.count)][-2:] == [USER, FINAL]
        s.close()
        for name in os.listdir(folder):
            os.remove(folder + "/" + name)
        os.rmdir(folder)
        if not failed and Faulty.count < n:
            break
    assert n > 20


def test_fat_works_and_warns(root):
    if not need_micropython():
        return
    flash = Flash(100)

    class Sectors:
        # FAT wants 512-byte sectors.
        def readblocks(self, n, buf):
            buf[:] = memoryview(flash.image)[n * 512 : n * 512 + len(buf)]

        def writeblocks(self, n, buf):
            flash.image[n * 512 : n * 512 + len(buf)] = buf

        def ioctl(self, op, arg):
            return {4: 800, 5: 512}.get(op, 0)

    mount(Sectors(), fat=True)
    from upyclaw.storage.chatmap import ChatMap

    store = SessionStore("/small/data/sessions", limit=9000)
    warnings = store.take_notices()
    assert len(warnings) == 1 and "FAT" in warnings[0]
    chats = ChatMap(store, "chat:serial:local")
    _, sid = chats.current()
    s = store.open(sid)
    n = 0
    while not s.blocked:
        turn(s, n, 900)
        n += 1
    s.trim()
    turn(s, n)
    assert s.count > 4
    s.close()
    again = SessionStore("/small/data/sessions", limit=9000).open(sid)
    assert records(again) == records(s) and again.take_notices() == []
    assert chats.new("two")[0] and chats.switch("default_01")[0] and chats.delete("two")[0]
    assert chats.new("three")[0] and chats.delete("default_01")[0]
    assert store.list() == []
    # The half-way state of its rename: the target is gone, the new name is there.
    turn(store.open(sid), 1)
    store.close(store.open(sid))
    path = "/small/data/sessions/" + store.list()[0][1]
    os.rename(path, path + ".new")
    with open(path + ".idx", "rb") as f, open(path + ".idx.new", "wb") as out:
        out.write(f.read())
    assert SessionStore("/small/data/sessions").open(sid).count == 2
    umount()
