"""Whatever the session file holds, the request keeps every rule and every user text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from upyclaw.prompt import Request
from upyclaw.storage.codec import user_record

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "device")]

from fake_session import FakeSession  # noqa: E402
from invariants import broken_rules, text_of  # noqa: E402
from test_prompt_cases import checker_says  # noqa: E402

IDS = st.sampled_from(["a", "b", "c", "call_1_0", "\u00e9", "", " ", "x" * 41, "y" * 100, None, 7])
TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "\u3000\t", "hi", "a\nb", "\u4f60\u597d", "\U0001f600", "\x00", '"\\']
    ),
    st.text(max_size=30),
    st.text(alphabet="\ud83d\ude00a\u4f60 ", max_size=8),
    st.text(min_size=60, max_size=200),
)
LOOSE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=4,
)
BLOCKS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
        st.fixed_dictionaries(
            {"type": st.just("tool_use"), "id": IDS, "name": TEXTS, "input": LOOSE}
        ),
        st.fixed_dictionaries(
            {"type": st.just("tool_result"), "tool_use_id": IDS, "content": TEXTS}
        ),
        st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS}),
        LOOSE,
    ),
    max_size=4,
)
CALLS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "id": IDS,
                "type": st.just("function"),
                "function": st.fixed_dictionaries(
                    {
                        "name": st.sampled_from(["f", "g_1", "", "bad name", "n" * 70]),
                        "arguments": st.one_of(
                            st.sampled_from(['{"a":1}', "{}", "", '{"a":', "\ud800"]), LOOSE
                        ),
                    }
                ),
            }
        ),
        st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": st.just("f")})}),
        LOOSE,
    ),
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "system", "x", None]),
        "content": st.one_of(TEXTS, st.none(), BLOCKS, LOOSE),
        "tool_calls": st.one_of(CALLS, LOOSE),
        "tool_call_id": IDS,
        "reasoning_content": st.one_of(TEXTS, st.none()),
        "is_error": st.booleans(),
        "extra": LOOSE,
    },
)
ASSISTANT = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.one_of(TEXTS, st.none()), "tool_calls": CALLS}
)
RESULTS = st.lists(
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": IDS, "content": TEXTS}),
    max_size=4,
)


@st.composite
def json_bytes(draw: st.DrawFn) -> bytes:
    value: Any = draw(
        st.one_of(MESSAGES, ASSISTANT, RESULTS, st.lists(MESSAGES, max_size=3), LOOSE)
    )
    pretty = draw(st.booleans())
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=(", ", ": ") if pretty else (",", ":"),
        indent=1 if pretty and draw(st.booleans()) else None,
    )
    return text.encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(json_bytes()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["set", "cut", "insert"]))
        byte = draw(st.integers(0, 255))
        if kind == "cut":
            del data[at:]
        elif kind == "insert":
            data.insert(at, byte)
        elif at < len(data):
            data[at] = byte
    return bytes(data)


RECORDS = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.integers(0, 3),
        st.one_of(
            json_bytes(), TEXTS.map(lambda t: user_record(t)), damaged(), st.binary(max_size=60)
        ),
    ),
    max_size=9,
)
PLAUSIBLE = st.lists(
    st.one_of(
        st.tuples(st.just(1), st.just(1), TEXTS.map(lambda t: user_record(t))),
        st.tuples(
            st.just(3),
            st.just(1),
            ASSISTANT.map(lambda m: json.dumps(m, separators=(",", ":")).encode()),
        ),
        st.tuples(
            st.just(4),
            st.just(1),
            RESULTS.map(lambda m: json.dumps(m, separators=(",", ":")).encode()),
        ),
        st.tuples(
            st.just(2),
            st.just(1),
            TEXTS.map(lambda t: user_record(t).replace(b"user", b"assistant", 1)),
        ),
    ),
    max_size=12,
)


def request_of(
    records: list[tuple[int, int, bytes]], budget: int, size: int, **options: Any
) -> tuple[dict[str, Any], Request]:
    options.setdefault("tool_rounds", True)
    request = Request(FakeSession(records), [("A", "text"), ("B", "")], budget, options=options)
    body = b"".join(bytes(p) for p in request.pieces(bytearray(size)))
    assert body == b"".join(bytes(p) for p in request.pieces(bytearray(size)))
    result: dict[str, Any] = json.loads(body.decode("utf-8"))
    return result, request


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    records=st.one_of(RECORDS, PLAUSIBLE),
    budget=st.sampled_from([0, 50, 200, 600, 10**6]),
    size=st.integers(64, 300),
    empty=st.sampled_from(["null", "empty", "omit"]),
    rounds=st.sampled_from([True, True, False]),
)
@example(
    records=[(4, 0, b'[{"role":"user","content":"x"}')],
    budget=9,
    size=64,
    empty="null",
    rounds=True,
)
def test_every_request_is_valid(
    records: list[tuple[int, int, bytes]], budget: int, size: int, empty: str, rounds: bool
) -> None:
    records = [*records, (1, 1, user_record("the question"))]
    result, _ = request_of(records, budget, size, empty_content=empty, tool_rounds=rounds)
    assert broken_rules(result) == []
    assert checker_says(result) == []
    last = [m for m in result["messages"] if m["role"] == "user"][-1]
    assert text_of(last).endswith("the question")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records=PLAUSIBLE, size=st.integers(64, 300))
def test_no_text_is_lost(records: list[tuple[int, int, bytes]], size: int) -> None:
    """With room for all, each text that shows something is sent, as it is, in order."""
    result, request = request_of(records, 10**6, size)
    assert request.unreadable == 0
    assert broken_rules(result) == []
    sent = "\n\n".join(text_of(m) for m in result["messages"] if m["role"] == "user")
    wanted = [json.loads(r[2])["content"] for r in records if r[0] == 1]
    wanted = [text for text in wanted if any(c > " " and not c.isspace() for c in text)]
    assert sent == ("\n\n".join(wanted) if wanted else "(no message)")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records=PLAUSIBLE, budget=st.integers(0, 800))
def test_what_is_sent_is_the_newest_turns(
    records: list[tuple[int, int, bytes]], budget: int
) -> None:
    records = [*records, (1, 1, user_record("q"))]
    _, request = request_of(records, budget, 64)
    assert records[request.first][0] == 1
    size = sum(len(r[2]) + 1 for r in records[request.first :])
    newest = max(i for i, r in enumerate(records) if r[0] == 1)
    assert size <= budget or request.first == newest
    before = [i for i in range(request.first) if records[i][0] == 1]
    if before and request.first < newest:
        assert sum(len(r[2]) + 1 for r in records[before[-1] :]) > budget
