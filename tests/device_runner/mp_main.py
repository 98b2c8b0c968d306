"""Runs test functions inside MicroPython: `micropython mp_main.py IMAGE TEST_FILE.py NAME...`.

Each function gets a fresh LittleFS (512 blocks of 4096 bytes, progsize 64, as on the board) at
/flash. Its blocks lie in IMAGE, a file of the host, so that they take nothing from a limited heap.
Lines that begin with the mark tell process.py where a function begins and how it ended.
"""

import asyncio
import gc
import os
import sys

import vfs
from file_flash import FileFlash

PROG = 64
MARK = "\x01@ "


def mark(*words):
    # A test may have left the line unfinished.
    print("\n" + MARK + " ".join(words))


def run_one(flash, function, takes_root):
    vfs.VfsLfs2.mkfs(flash, progsize=PROG)
    vfs.mount(vfs.VfsLfs2(flash, progsize=PROG), "/flash")
    home = os.getcwd()
    gc.collect()
    try:
        result = function("/flash") if takes_root else function()
        if hasattr(result, "send"):
            asyncio.run(result)
        return "ok"
    except BaseException as error:
        sys.print_exception(error)
        return "failed"
    finally:
        # Tasks that a test left behind must not run in the next one.
        asyncio.new_event_loop()
        os.chdir(home)
        vfs.umount("/flash")


def main():
    flash = FileFlash(sys.argv[1])
    folder, _, file_name = sys.argv[2].rpartition("/")
    sys.path.insert(0, folder)
    module = __import__(file_name.rsplit(".", 1)[0])
    for name in sys.argv[3:]:
        # "test_x:root" takes the folder, "test_x" nothing.
        name, _, root = name.partition(":")
        mark("begin", name)
        mark(run_one(flash, getattr(module, name), root), name)
    mark("done")


main()
