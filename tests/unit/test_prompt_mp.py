"""The same requests under real MicroPython: every rule holds, the bytes are those of CPython."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.on_micropython import micropython
from upyclaw.prompt import Request
from upyclaw.storage.codec import user_record

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "device")]

from fake_session import FakeSession  # noqa: E402
from invariants import broken_rules  # noqa: E402
from test_prompt_hypothesis import PLAUSIBLE, RECORDS  # noqa: E402


def under_micropython(cases: list[Any]) -> list[bytes]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(cases, f)
        f.flush()
        said = micropython(HERE / "mp_prompt.py", HERE.parent / "device", f.name)
    return [base64.b64decode(line) for line in said.split()]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    sessions=st.lists(st.one_of(RECORDS, PLAUSIBLE), min_size=1, max_size=6),
    budget=st.sampled_from([0, 200, 10**6]),
    size=st.integers(64, 300),
)
def test_same_request_on_both(
    sessions: list[list[tuple[int, int, bytes]]], budget: int, size: int
) -> None:
    sessions = [[*records, (1, 1, user_record("the question"))] for records in sessions]
    cases = [
        [budget, size, [[r[0], r[1], base64.b64encode(r[2]).decode()] for r in records]]
        for records in sessions
    ]
    bodies = under_micropython(cases)
    assert len(bodies) == len(sessions)
    for records, body in zip(sessions, bodies, strict=True):
        assert broken_rules(json.loads(body.decode("utf-8"))) == []
        request = Request(
            FakeSession(records), [("A", "text")], budget, options={"tool_rounds": True}
        )
        assert body == b"".join(bytes(p) for p in request.pieces(bytearray(size)))
