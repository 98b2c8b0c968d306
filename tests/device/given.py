"""Files that tests are given: those kept with us, and those beside some checkouts only."""

import os


def kept(name):
    """The content of `name` below tests/data."""
    with open(os.getenv("UPYCLAW_TEST_DATA") + "/" + name, "rb") as f:
        return f.read()


def shared(name):
    """The content of `name` in the shared folder; without that None, and the test skips."""
    folder = os.getenv("UPYCLAW_SHARED")
    if not folder:
        print("SKIP: no shared files here")
        return None
    with open(folder + "/" + name, "rb") as f:
        return f.read()
