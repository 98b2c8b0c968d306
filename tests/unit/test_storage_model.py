"""The device's store against a model with plain lists, in any order of calls (hypothesis)."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from upyclaw.storage import FINAL, RESULT, TOOL, USER, SessionStore, StorageError, user_record
from upyclaw.storage.codec import CUT_OFF

_SID = "chat:serial:local:default_01"
_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=400)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class StoreMachine(RuleBasedStateMachine):
    """`saved` is durable, `ended` is complete in the open turn, `part` is being written."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="upyclaw-store-"))
        self.saved: list[tuple[int, bytes]] = []
        self.ended: list[tuple[int, bytes]] = []
        self.part: bytes | None = None
        self.rtype = 0
        self.dropped = 0  # bytes of a dropped record that the next one writes over
        self.turn = False
        self._open()

    def teardown(self) -> None:
        self.session.release()
        shutil.rmtree(self.folder)

    def _open(self) -> None:
        self.store = SessionStore(str(self.folder / "sessions"), limit=10**9)
        self.session = self.store.open(_SID)

    def _end(self, rtype: int, data: bytes) -> None:
        self.ended.append((rtype, data + b" " * (self.dropped - len(data))))
        self.dropped = 0

    def _cut_off(self) -> None:
        if self.part is not None:
            self.dropped = max(self.dropped, len(self.part))
            self.part = None
        if self.dropped:
            self._end(FINAL, CUT_OFF)

    def _save(self) -> None:
        self.saved += self.ended
        self.ended = []

    @precondition(lambda self: self.part is None)
    @rule(text=_text)
    def user(self, text: str) -> None:
        record = user_record(text)
        self.session.add_user(record)
        self._end(USER, record)
        self._save()
        self.turn = True

    @precondition(lambda self: self.turn and self.part is None)
    @rule(rtype=st.sampled_from([FINAL, TOOL, RESULT]), text=_text)
    def begin(self, rtype: int, text: str) -> None:
        data = {
            FINAL: {"role": "assistant", "content": text},
            TOOL: {"role": "assistant", "content": text, "tool_calls": [{"id": "c"}]},
            RESULT: [{"role": "tool", "tool_call_id": "c", "content": text}],
        }[rtype]
        self.whole = _json(data)
        self.part = b""
        self.rtype = rtype
        self.session.begin(rtype)

    @precondition(lambda self: self.part is not None)
    @rule(n=st.integers(0, 200))
    def write(self, n: int) -> None:
        assert self.part is not None
        piece = self.whole[len(self.part) : len(self.part) + n]
        self.session.write(memoryview(piece))
        self.part += piece

    @precondition(lambda self: self.part is not None)
    @rule()
    def end(self) -> None:
        assert self.part is not None
        self.session.write(self.whole[len(self.part) :])
        self.session.end()
        self.part = None
        self._end(self.rtype, self.whole)

    @precondition(lambda self: self.part is not None)
    @rule()
    def drop(self) -> None:
        assert self.part is not None
        self.session.drop()
        self.dropped = max(self.dropped, len(self.part))
        self.part = None

    @precondition(lambda self: self.turn and self.part is None)
    @rule()
    def sync(self) -> None:
        self._cut_off()
        self.session.sync()
        self._save()

    @precondition(lambda self: self.turn)
    @rule(completed=st.booleans())
    def finish(self, completed: bool) -> None:
        self._cut_off()
        self.session.finish(completed)
        self._save()
        self.turn = False

    @rule()
    def close_and_open(self) -> None:
        self._cut_off()
        self.store.close(self.session)
        self._save()
        self.turn = False
        idx = Path(self.session.path + ".idx")
        assert not self.saved or idx.stat().st_size == 8 + 10 * len(self.saved)
        self._open()

    @precondition(lambda self: not self.turn)
    @rule(keep=st.integers(0, 400))
    def restart_with_less_idx(self, keep: int) -> None:
        self.session.release()
        path = Path(self.session.path + ".idx")
        if path.exists():
            path.write_bytes(path.read_bytes()[:keep])
        self._open()

    @precondition(lambda self: not self.turn and self.saved)
    @rule(tail=st.binary(min_size=1, max_size=60).filter(lambda b: not set(b) & set(b"\n}")))
    def restart_with_a_torn_tail(self, tail: bytes) -> None:
        self.session.release()
        # Never a whole JSON value, which would count as a record.
        tail = b'{"' + tail
        with open(self.session.path, "ab") as f:
            f.write(tail)
        self._open()
        self.saved.append((FINAL, CUT_OFF + b" " * (len(tail) - len(CUT_OFF))))

    @invariant()
    def reads_as_the_model(self) -> None:
        session = self.session
        records = self.saved + self.ended
        assert session.count == len(records)
        offset = 0
        for i, (rtype, data) in enumerate(records):
            assert session.entry(i) == (offset, len(data), rtype, 1), i
            offset += len(data) + 1
        for i in {0, len(self.saved) // 2, len(self.saved) - 1} if self.saved else ():
            buf = bytearray(53)
            assert b"".join(bytes(v) for v in session.chunks(i, buf)) == self.saved[i][1]
        if self.ended:
            try:
                b"".join(bytes(v) for v in session.chunks(len(records) - 1, bytearray(9)))
            except StorageError:
                pass
            else:
                raise AssertionError("read before it was written")


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
