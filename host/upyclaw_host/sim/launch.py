"""Becomes MicroPython: `python launch.py ARGUMENTS` with the board's line as standard input.

The line becomes the controlling terminal, so that MicroPython gets a hang-up and ends when the
simulator is gone, however that ended. Imports as little as it can: every start of the board waits
for it.
"""

import fcntl
import sys
import termios


def main() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    import micropython_run  # type: ignore[import-not-found]

    sys.exit(micropython_run.run_main(["micropython", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
