"""A page of a session's talk for the screen: USER and FINAL records, newest first.

Owns the limits of SPEC-session §8 ("Page read") and the streaming of texts from flash to the
socket; no text is ever whole in RAM. Must not change anything. Loaded for the call.
"""

from upyclaw.compat import const, sleep_ms
from upyclaw.prompt.cursor import Cursor
from upyclaw.prompt.message import DIRTY, read_record
from upyclaw.storage import FINAL, USER

_MOST = const(50)  # messages of one page
_TEXT = const(32768)  # bytes of text after which a page ends
_RECORD = const(65536)  # a longer record is named, not shown
_BUFFER = const(256)

CHANGED = "The session changed meanwhile; load it again."


async def page(client, ident, message):
    """Send items `{"ev":"item","seq":..,"role":..,"text":..}`; the fields of the end event.

    `before`: show messages below this number (0: the newest); `limit`: 1 to 50. Messages are
    counted from 1. Raises StorageError, Gone.
    """
    before = int(message.get("before", 0))
    limit = min(max(int(message.get("limit", 20)), 1), _MOST)
    session = client.app.agent.session(client.chat)
    total = await _count(session)
    end = before - 1 if 0 < before <= total else total
    reader = _Reader(client.ws, ident, session)
    sent = 0
    seq = total
    i = session.count
    while i > 0 and seq > 0 and sent < limit and reader.sent <= _TEXT:
        i -= 1
        if reader.kind(i) is None:
            continue
        if seq <= end:
            await reader.item(i, seq)
            sent += 1
            if reader.changed:
                return {"ok": False, "again": True, "error": CHANGED}
        seq -= 1
        if not seq & 63:
            await sleep_ms(0)
    alias = client.app.agent.map(client.chat).current()[0]
    return {"total": total, "before": seq + 1, "more": seq > 0, "session": alias}


async def _count(session):
    total = 0
    for i in range(session.count):
        if session.entry(i)[2] in (USER, FINAL):
            total += 1
        if not i & 63:
            await sleep_ms(0)
    return total


class _Reader:
    """Sends records of one session. `sent`: bytes of text; `changed`: stop, a record moved."""

    def __init__(self, ws, ident, session):
        self.sent = 0
        self.changed = False
        self._ws = ws
        self._id = ident
        self._session = session
        self._buf = bytearray(_BUFFER)
        self._cursor = Cursor(session, self._buf)

    def kind(self, i):
        """USER or FINAL, None for another kind of record or one that is not there any more."""
        if i >= self._session.count:
            return None
        kind = self._session.entry(i)[2]
        return kind if kind in (USER, FINAL) else None

    async def item(self, i, seq):
        """Send record `i` as message number `seq`. Raises StorageError, Gone."""
        entry = self._session.entry(i)
        texts = []
        state = ""
        if entry[1] > _RECORD:
            state = ',"bytes":{}'.format(entry[1])
        else:
            messages = read_record(self._cursor, i, entry[2])
            if messages is None:
                state = ',"damaged":true'
            else:
                for one in messages:
                    texts += one.texts
        role = "user" if entry[2] == USER else "assistant"
        head = '{{"id":{},"ev":"item","seq":{},"role":"{}"{},"text":"'
        await self._ws.begin()
        try:
            await self._ws.part(head.format(int(self._id), seq, role, state).encode())
            first = True
            for text in texts:
                if not first:
                    await self._ws.part(b"\\n")
                first = False
                await self._copy(i, entry, text)
            # Without these two bytes the message is no JSON, and the page forgets it.
            if not self.changed:
                await self._ws.part(b'"}')
        finally:
            await self._ws.end()

    async def _copy(self, i, entry, text):
        kind, start, end = text
        if self._moved(i, entry):
            return
        self.sent += end - start
        pieces = self._span(i, start, end)
        if kind == DIRTY:
            from upyclaw.prompt.mend import clean_string

            pieces = clean_string(pieces)
        for piece in pieces:
            await self._ws.part(piece)
            if self._moved(i, entry):
                return

    def _moved(self, i, entry):
        # While we waited for the socket a turn may have ended with compaction.
        if i >= self._session.count or self._session.entry(i) != entry:
            self.changed = True
        return self.changed

    def _span(self, i, start, end):
        at = 0
        for chunk in self._session.chunks(i, self._buf):
            n = len(chunk)
            if at + n > start:
                yield chunk[max(0, start - at) : min(n, end - at)]
            at += n
            if at >= end:
                break
