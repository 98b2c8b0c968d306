"""Cuts a recorded story at each of its operations: for powercut.py and powercut_memory.py.

Owns the flash under test and what is told of it. Nothing is injected: for each prefix of the
operations, clean and torn, the image is built, mounted and checked; what the check itself wrote
until `end()` is cut in its turn after every STRIDE-th of the first cuts. What is checked is the
caller's.
"""

import json

from powercut_model import Flash, mount, umount

from upyclaw.storage import StorageError

# Everything that a check raises is a violation, too.
FAULTS = (OSError, StorageError, ValueError, IndexError, KeyError, AttributeError, TypeError)


class Cutter:
    """`check(story, states, rest, end)` looks at a mounted flash: what is wrong, or None.

    `again` does so after a second cut, clean and with `torn_again` torn as well.
    """

    def __init__(self, story, check, again, torn_again):
        self.story = story
        self.check = check
        self.again = again
        self.torn_again = torn_again
        self.flash = Flash(story.flash.blocks, story.flash.prog)
        self.written = ()
        self.second = 0
        self.violations = []

    def end(self):
        """What is written from here on is not cut."""
        if self.flash.ops is not None:
            self.written = self.flash.ops
            self.flash.ops = None

    def attempt(self, check, label, states, rest):
        mount(self.flash)
        try:
            wrong = check(self.story, states, rest, self.end)
        except FAULTS as e:
            wrong = f"{type(e).__name__}: {e}"
        self.end()
        umount()
        if wrong:
            self.violations.append("%s: %s" % (label, wrong))

    def image_at(self, base, *ops, torn=None):
        """Put `base` with `ops` done and half of `torn` into the flash under test."""
        self.flash.image[:] = base.image
        for op in ops:
            self.flash.apply(op)
        if torn:
            self.flash.apply(torn, True)

    def cut(self, stride):
        """All cuts of the story. Returns (cuts, second cuts, violations)."""
        story = self.story
        ops = story.flash.ops
        story.flash.ops = None
        umount()
        base = Flash(story.flash.blocks, story.flash.prog)
        base.image[:] = story.image
        cuts = mark = 0
        for k in range(len(ops) + 1):
            while mark + 1 < len(story.marks) and story.marks[mark + 1][0] <= k:
                mark += 1
            _, states, rest = story.marks[mark]
            for torn in (None, ops[k]) if k < len(ops) else (None,):
                label = "cut %d%s" % (k, " torn" if torn else "")
                self.image_at(base, torn=torn)
                self.flash.ops = []
                self.attempt(self.check, label, states, rest)
                cuts += 1
                if (cuts + story.start) % stride == 0:
                    self.cut_again(base, torn, label, states, rest)
            if k < len(ops):
                base.apply(ops[k])
        return cuts, self.second, self.violations

    def cut_again(self, base, torn, label, states, rest):
        """Cut what the last check wrote on the image that it found: `base` and the torn one."""
        broken = Flash(0, 0)
        broken.image = bytearray(base.image)
        if torn:
            Flash.apply(broken, torn, True)
        more = self.written
        for j in range(len(more)):
            for torn2 in (None, more[j]) if self.torn_again else (None,):
                self.image_at(broken, *more[:j], torn=torn2)
                where = "%s then %d%s" % (label, j, " torn" if torn2 else "")
                self.attempt(self.again, where, states, rest)
                self.second += 1


def tell(name, operations, cuts, second, violations):
    """Print the JSON line of a story."""
    line = {"story": name, "operations": operations, "cuts": cuts, "second": second}
    line["violations"] = violations[:20]
    line["violation_count"] = len(violations)
    print(json.dumps(line))
