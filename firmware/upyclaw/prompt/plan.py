"""Which records go into a request.

Owns the cut: whole turns from the newest backwards that fit (B41), and what the newest turn gives
up if it is over the budget alone. Reads the idx entries only, a byte of data never.
"""

from upyclaw.storage.codec import FINAL, RESULT, TOOL, USER

STAND_IN = 160  # bytes of a result that stands in for one left out, with its frame


class Plan:
    """What to send of a session with a `budget` in bytes.

    `first`: the record to begin with. `open`: from this record on the turn is not finished.
    `thin`: results before it go as stand-ins. `skip`: tool calls and results of the newest turn
    before it are left out. `room`: bytes of text of the newest turn, -1 for no limit. `newest`:
    the first record of that turn.
    """

    def __init__(self, session, budget):
        self.thin = self.skip = self.open = self.first = 0
        self.room = -1
        self.newest = -1
        total = 0
        i = session.count
        while i > 0:
            i -= 1
            _, length, rtype, _ = session.entry(i)
            total += length + 1
            if rtype == FINAL and not self.open:
                self.open = i + 1
            if self.newest >= 0 and total > budget:
                break
            if rtype == USER:
                self.first = i
                if self.newest < 0:
                    self.newest = i
                    if total > budget:
                        self._thin(session, total - budget)
                        break
        if self.newest < 0:
            self.newest = self.first

    def _thin(self, session, over):
        """Find what the newest turn leaves out to become `over` bytes shorter."""
        count = session.count
        for i in range(self.newest, count):
            _, length, rtype, _ = session.entry(i)
            if rtype == RESULT and length > STAND_IN:
                over -= length - STAND_IN
                self.thin = i + 1
                if over <= 0:
                    return
        for i in range(self.newest, count):
            _, length, rtype, _ = session.entry(i)
            if rtype == TOOL or rtype == RESULT:
                over -= min(length, STAND_IN) if rtype == RESULT else length
                # A call goes with its results.
                self.skip = i + 1
                if over <= 0 and rtype == RESULT:
                    break
        text = 0
        for i in range(self.newest, count):
            _, length, rtype, _ = session.entry(i)
            if rtype == USER or rtype == FINAL:
                text += length
        if over > 0:
            self.room = max(text - over, 256)
