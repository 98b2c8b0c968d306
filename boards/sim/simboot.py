"""Start of the simulated board: mounts the flash image at `/`, then runs boot.py and main.py.

Does what the ESP32 port's C code does between reset and REPL, in the same order. Settings come in
the environment variables `UPYSIM_*`. The host's file system goes out of reach.
"""

import gc
import os
import sys

import simflash
import simmachine
import vfs

import __main__


def _setting(name):
    value = os.getenv("UPYSIM_" + name)
    os.unsetenv("UPYSIM_" + name)
    return value


def _run_file(name, names):
    """Run `/name` if it exists, in the namespace the REPL has. False if it ended with an error."""
    try:
        os.stat(name)
    except OSError:
        return True
    try:
        execfile(name, names)  # noqa: F821  (MicroPython has it)
    except SystemExit:
        simmachine.soft_reset()
    except BaseException as error:
        sys.print_exception(error)
        return False
    return True


def _mount():
    """Put the image where the host's file system was; returns whether main.py is to run."""
    control = open("/dev/fd/" + _setting("CONTROL"), "wb")
    simmachine.connect(control, int(_setting("CAUSE")))
    with_main = _setting("MAIN") == "1"
    world = _setting("NETWORK")
    if world:
        import simnetwork

        # The file stays open; its name means nothing once the flash is at `/`.
        simnetwork.open_world(world)
        sys.modules["network"] = simnetwork
    flash = simflash.Flash(
        _setting("IMAGE"),
        _setting("WEAR"),
        int(_setting("BLOCKS")),
        int(_setting("BLOCK")),
        int(_setting("CUT")),
        simmachine.cut,
    )
    fs = vfs.VfsLfs2(flash, progsize=int(_setting("PROGSIZE")))
    os.umount("/")
    os.mount(fs, "/")
    return with_main


def run():
    """Boot. Returns when main.py has ended; the REPL follows."""
    names = __main__.__dict__
    try:
        with_main = _mount()
    except BaseException as error:
        # Never into a REPL that could reach the host's files.
        sys.print_exception(error)
        simmachine.die()
    sys.modules["machine"] = simmachine
    sys.path[:] = ["", ".frozen", "/lib"]
    sys.argv[:] = []
    for name in ("simboot", "simflash", "simmachine", "simnetwork"):
        sys.modules.pop(name, None)
    names.pop("simboot", None)
    gc.collect()
    simmachine.listen()
    if _run_file("boot.py", names) and with_main:
        _run_file("main.py", names)
