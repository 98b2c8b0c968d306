"""Becomes MicroPython: `python launch.py ARGUMENTS` with the board's line as standard input.

The line becomes the controlling terminal, so that MicroPython gets a hang-up and ends when the
simulator is gone, however that ended. SIGUSR1 becomes what Ctrl-C is on a chip: KeyboardInterrupt
at the next instruction. Imports as little as it can: every start of the board waits for it.
"""

import ctypes
import fcntl
import signal
import sys
import termios


def main() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    import micropython_run  # type: ignore[import-not-found]

    # The unix port's own SIGINT jumps out of whatever runs, the garbage collector (which leaves
    # the heap locked) and LittleFS among it. This function only leaves a note for the interpreter.
    note = ctypes.CDLL(micropython_run.__file__).mp_sched_keyboard_interrupt
    process = ctypes.CDLL(None)
    process.signal(signal.SIGUSR1, note)
    # A read or a sleep ends at once.
    process.siginterrupt(signal.SIGUSR1, 1)
    sys.exit(micropython_run.run_main(["micropython", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
