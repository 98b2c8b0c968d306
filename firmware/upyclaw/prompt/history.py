"""Writes the messages of a session: paired, joined, cleaned, valid whatever the file holds.

Owns: the order and pairing of messages (B01, B12, B40, B41), joining of neighbours, what of the
reasoning goes back (B04). The file is only read: repairs live in the request. Must not hold a
record.

RAM: one read buffer of 512 bytes, the facts of one record, the open calls of one round, 256 bytes
to tell which ids are taken.
"""

import binascii

from upyclaw.compat import const
from upyclaw.prompt.clean import NO_WORDS, is_blank, json_as_string, text_pieces
from upyclaw.prompt.cursor import Cursor
from upyclaw.prompt.message import CLEAN, DIRTY, read_record
from upyclaw.prompt.plan import Plan
from upyclaw.storage.codec import RESULT, TOOL, json_escape

INTERRUPTED = b"(interrupted)"
NO_OUTPUT = b"(no output)"
LEFT_OUT = b"(left out: too long for the model's context)"

_READ = const(512)
_ID_LIMIT = const(40)  # characters of a call's id that every server takes
_BITS = const(2048)  # of the filter that tells which ids may have been used


class History:
    """One run over the records of `session` that fit `budget` bytes; see Request for `options`.

    `any_before`: a message stands in front, so the first one needs a comma. `tool_rounds`: False
    leaves out calls and results; the texts of such turns stay. After `messages()`:
    `unreadable` records that are not JSON, `first` the record the history began with.
    """

    def __init__(self, session, budget, options, any_before, tool_rounds):
        self._session = session
        self._options = options
        self._tool_rounds = tool_rounds
        self._plan = Plan(self._session, budget)
        self._cur = Cursor(self._session, bytearray(_READ))
        self._role = ""  # of the message before: user, assistant, calls, tool
        self._open = False  # that message's content string still waits for its end
        self._any = any_before
        self._pending = []  # [id, new id or None, record] of calls without a result
        self._used = bytearray()
        self.unreadable = 0
        self.first = self._plan.first

    def messages(self):
        """Yield the messages as pieces of JSON."""
        session = self._session
        plan = self._plan
        for i in range(plan.first, session.count):
            rtype = session.entry(i)[2]
            if plan.newest <= i < plan.skip and (rtype == TOOL or rtype == RESULT):
                continue
            messages = read_record(self._cur, i, rtype)
            if messages is None:
                self.unreadable += 1
                continue
            for message in messages:
                if message.role == "user":
                    yield from self._user(message)
                elif message.role == "assistant" and self._role:
                    yield from self._assistant(message)
                elif message.role == "tool" and self._pending:
                    yield from self._result(message)
        extra = self._options.get("user")
        if extra and not is_blank(extra):
            yield from self._begin("user")
            for piece in text_pieces(extra):
                yield json_escape(piece)
        if not self._role:
            # Nobody has said a word that can be read.
            yield from self._begin("user")
            yield NO_WORDS
        yield from self._settle()
        yield from self._close()

    def _begin(self, role):
        """Begin a message, or go on with the one before if it is of the same role."""
        yield from self._settle()
        if self._open and self._role == role:
            yield b"\\n\\n"
            return
        if self._role == "tool" and role == "user":
            # Strict chat templates want an answer between a result and the next question.
            yield from self._begin("assistant")
            yield INTERRUPTED
        yield from self._close()
        yield self._comma() + b'{"role":"' + role.encode() + b'","content":"'
        self._role = role
        self._open = True

    def _comma(self):
        if self._any:
            return b","
        self._any = True
        return b""

    def _close(self):
        if self._open:
            self._open = False
            yield b'"}'

    def _settle(self):
        """Give each call without a result a stand-in (B01)."""
        while self._pending:
            call = self._pending.pop(0)
            yield b',{"role":"tool","tool_call_id":"'
            yield from self._call_id(call)
            yield b'","content":"' + INTERRUPTED + b'"}'
            self._role = "tool"

    def _user(self, message):
        if message.texts:
            yield from self._begin("user")
            yield from self._texts(message.texts)
            notes = self._options.get("notes")
            if notes and self._cur.record == self._plan.newest:
                yield b"\\n\\n"
                yield json_escape(notes)

    def _assistant(self, message):
        if message.texts:
            yield from self._begin("assistant")
            yield from self._texts(message.texts)
        if not message.calls or not self._tool_rounds:
            return
        yield from self._settle()
        if self._open and self._role == "assistant":
            yield b'"'
            self._open = False
        else:
            yield from self._close()
            yield self._comma() + b'{"role":"assistant"'
            content = self._options.get("empty_content", "null")
            if content != "omit":
                yield b',"content":' + (b"null" if content == "null" else b'""')
        yield from self._thoughts(message)
        yield from self._calls(message)
        yield b"}"
        self._role = "calls"

    def _thoughts(self, message):
        """The reasoning of the open turn goes back as it came, also if empty (B04)."""
        if message.reasoning is None or not self._options.get("reasoning", True):
            return
        if self._cur.record >= self._plan.open:
            key, text = message.reasoning
            yield b',"' + key.encode() + b'":"'
            yield from self._copy(text)
            yield b'"'

    def _calls(self, message):
        record = self._cur.record
        exact = message.calls_at is not None
        for call in message.calls:
            new = self._new_id(call.ident, record)
            exact = exact and new is None
            self._pending.append([call.ident, new, record])
        if exact:
            yield b',"tool_calls":'
            start, end = message.calls_at
            yield from self._raw(record, start, end)
            return
        head = b',"tool_calls":[{"id":"'
        i = len(self._pending) - len(message.calls)
        for call in message.calls:
            yield head
            head = b',{"id":"'
            yield from self._call_id(self._pending[i])
            i += 1
            yield b'","type":"function","function":{"name":"' + call.name.encode()
            yield b'","arguments":"'
            if call.arguments is None:
                yield b"{}"
            else:
                yield from self._copy(call.arguments)
            yield b'"}}'
        yield b"]"

    def _result(self, message):
        key = self._key(message.ident, self._cur.record)
        for i in range(len(self._pending)):
            call = self._pending[i]
            if self._key(call[0], call[2]) == key:
                break
        else:
            return
        self._pending.pop(i)
        yield b',{"role":"tool","tool_call_id":"'
        yield from self._call_id(call)
        yield b'","content":"'
        if self._cur.record < self._plan.thin:
            yield LEFT_OUT
        elif not message.texts:
            yield NO_OUTPUT
        else:
            for text in message.texts:
                yield from self._copy(text)
        yield b'"}'
        self._role = "tool"

    # Ids

    def _key(self, ident, record):
        """What two ids are compared by."""
        if not isinstance(ident, tuple):
            return ident
        start, end = ident
        crc = 0
        for piece in self._raw(record, start, end):
            crc = binascii.crc32(piece, crc)
        return end - start, crc

    def _new_id(self, ident, record):
        """None if the call's id can stay, else one that is not used in this request (B14, B59)."""
        if not self._used:
            self._used = bytearray(_BITS // 8)
        short = isinstance(ident, str) and len(ident) <= _ID_LIMIT
        # The open turn's ids go back as they came, whatever their length.
        if short or ident and record >= self._plan.open:
            if self._mark(str(self._key(ident, record))):
                return None
        n = len(self._pending)
        while True:
            new = "call_{}_{}".format(record, n)
            if self._mark(new):
                return new.encode()
            n += 100

    def _mark(self, key):
        """Note an id as used; False if it may be used already. A false alarm costs a new name."""
        bit = binascii.crc32(key.encode()) % _BITS
        mask = 1 << (bit & 7)
        fresh = not self._used[bit >> 3] & mask
        self._used[bit >> 3] |= mask
        return fresh

    def _call_id(self, call):
        ident, new, record = call
        if new is not None:
            yield new
        elif isinstance(ident, tuple):
            yield from self._raw(record, ident[0], ident[1])
        else:
            yield json_escape(ident)

    # Copies from flash

    def _texts(self, texts):
        plan = self._plan
        for text in texts:
            kind, start, end = text
            if plan.room >= 0 and self._cur.record >= plan.newest:
                if end - start > plan.room:
                    cut = end - start - plan.room
                    # The cleaner mends the end of a string that is cut anywhere.
                    yield from self._copy((DIRTY, start, end - cut))
                    plan.room = 0
                    yield " \u2026 [{} bytes left out]".format(cut).encode()
                    continue
                plan.room -= end - start
            yield from self._copy(text)

    def _copy(self, text):
        kind, start, end = text
        data = self._raw(self._cur.record, start, end)
        if kind == CLEAN:
            return data
        if kind == DIRTY:
            from upyclaw.prompt.mend import clean_string

            return clean_string(data)
        return json_as_string(data)

    def _raw(self, record, start, end):
        """Yield the bytes `start`..`end` of a record."""
        cur = self._cur
        if record == cur.record and cur.held(end):
            yield cur.view[start:end]
            return
        at = 0
        for chunk in self._session.chunks(
            record, bytearray(_READ) if record != cur.record else cur.buf
        ):
            n = len(chunk)
            if at + n > start:
                yield chunk[max(start - at, 0) : min(end - at, n)]
            at += n
            if at >= end:
                return
