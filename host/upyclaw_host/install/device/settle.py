"""Runs on the board: puts the files of a whole update in place, then clears up.

`/upyclaw.ready` exists from the moment an update is complete. Every step may be cut off and done
again: boot.py runs this at each start until the folder is gone (docs/install.md).
"""

import os

READY = "/upyclaw.ready"
DONE = "/upyclaw.new"


def move(folder, target):
    for entry in list(os.ilistdir(folder)):
        here = folder + "/" + entry[0]
        there = target + "/" + entry[0]
        if entry[1] & 0x4000:
            try:
                os.mkdir(there)
            except OSError:
                pass
            move(here, there)
            os.rmdir(here)
        else:
            os.rename(here, there)


def remove(path):
    try:
        os.remove(path)
        while True:
            # Folders that the file leaves empty go with it.
            path = path[: path.rfind("/")]
            if not path:
                break
            os.rmdir(path)
    except OSError:
        pass


def clear(folder):
    for entry in list(os.ilistdir(folder)):
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            clear(path)
        else:
            os.remove(path)
    os.rmdir(folder)


# After a cut inside a rename from folder to folder LittleFS lists the source folder wrongly until
# something is written; an attempt to remove what is not there makes it put that right.
try:
    os.remove(READY + "/nothing")
except OSError:
    pass
try:
    move(READY + "/root", "")
except OSError as error:
    if error.errno != 2:
        raise
with open(READY + "/gone.txt") as f:
    for line in f:
        remove(line.rstrip("\n"))
try:
    clear(DONE)
except OSError:
    pass
os.rename(READY, DONE)
clear(DONE)
