"""The device code under real MicroPython on real LittleFS against the witness on the PC.

Each example plays a handful of sessions, random histories or random damage, in one MicroPython
process on one image; the witness then opens the image and must see what the device saw.
"""

from __future__ import annotations

import base64
import json
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from unit.formats_help import damage, write_pair
from unit.on_micropython import micropython
from upyclaw_host.formats.catalog import load_catalog
from upyclaw_host.formats.index import RecordType
from upyclaw_host.formats.messages import dump
from upyclaw_host.formats.session import SessionPair
from upyclaw_host.source import open_source

_SCRIPT = Path(__file__).with_name("mp_differential.py")
_words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


def _call(text: str) -> str:
    function = {"name": "f", "arguments": text}
    calls = [{"id": "c", "type": "function", "function": function}]
    return dump({"role": "assistant", "content": None, "tool_calls": calls})


def _result(text: str) -> str:
    return dump([{"role": "tool", "tool_call_id": "c", "content": text}])


def _final(text: str) -> str:
    return dump({"role": "assistant", "content": text})


def _turn(parts: tuple[str, int, str, bool]) -> list[list[Any]]:
    text, rounds, answer, answered = parts
    steps: list[list[Any]] = [["user", text]]
    for number in range(rounds):
        steps += [
            ["record", 3, _call(f"{number}{answer}")],
            ["record", 4, _result(text)],
            ["sync"],
        ]
    if answered:
        steps.append(["record", 2, _final(answer)])
    return [*steps, ["finish", answered]]


_turns = st.lists(
    st.tuples(_words, st.integers(0, 2), _words, st.booleans()).map(_turn), max_size=4
)
_history = st.tuples(_turns, st.booleans()).map(
    lambda both: {
        "data": None,
        "idx": None,
        "steps": [step for turn in both[0] for step in turn] + [["close"]] * both[1],
    }
)


@st.composite
def _damaged(draw: st.DrawFn) -> dict[str, Any]:
    records = [
        (1, 1, dump({"role": "user", "content": draw(_words)}).encode()),
        (3, 1, _call(draw(_words)).encode()),
        (4, 1, _result(draw(_words)).encode()),
        (2, 1, _final(draw(_words)).encode()),
    ] * draw(st.integers(1, 3))
    parts = [bytearray(part) for part in write_pair(records)]
    for _ in range(draw(st.integers(1, 3))):
        damage(draw, parts[draw(st.integers(0, 1))])
    if parts[1][:4] == b"CHDX" and len(parts[1]) >= 8:
        parts[1][4:6] = b"\x01\x00"  # other versions have rules of their own
    data, idx = (base64.b64encode(part).decode() for part in parts)
    after = draw(st.sampled_from([[], [["user", "goes on"], ["record", 2, _final("y")]]]))
    return {"data": data, "idx": idx, "steps": after + [["finish", True]] * bool(after)}


_scenarios = st.lists(st.one_of(_history, _damaged()), min_size=4, max_size=8)


def _play(folder: Path, scenarios: list[dict[str, Any]]) -> list[dict[str, Any]]:
    image, todo = folder / "flash.img", folder / "todo.json"
    image.write_bytes(b"\xff" * 4096 * 256)
    # Not with escapes: MicroPython reads a pair as two halves (B06).
    todo.write_text(json.dumps(scenarios, ensure_ascii=False), encoding="utf-8")
    said = micropython(_SCRIPT, image, todo)
    return [json.loads(line) for line in said.splitlines()]


def _crc(pair: SessionPair) -> int:
    return zlib.crc32(b"".join(record.raw + b"\n" for record in pair.records))


def _lines(scenario: dict[str, Any]) -> list[bytes]:
    """Complete lines of the data file before the device touched it."""
    data = base64.b64decode(scenario["data"] or "")
    return data.split(b"\n")[:-1]


def _kept(lines: list[bytes], records: list[bytes]) -> bool:
    """Every line is a record still; a line whose own end was overwritten may be two again."""
    at = 0
    for line in lines:
        held = records[at] if at < len(records) else b""
        while held != line and len(held) < len(line) and at + 1 < len(records):
            # One byte between them: what stood in place of the line end.
            at += 1
            held += line[len(held) : len(held) + 1] + records[at]
        if held != line:
            return False
        at += 1
    return True


def _written(scenario: dict[str, Any]) -> list[int]:
    """Types of the records that a history writes."""
    return [
        1 if step[0] == "user" else step[1]
        for step in scenario["steps"]
        if step[0] in ("user", "record")
    ]


@given(_scenarios)
@settings(max_examples=12, deadline=None)
def test_the_witness_sees_what_micropython_wrote(scenarios):
    for number, scenario in enumerate(scenarios):
        scenario["sid"] = f"chat:serial:1:s{number}"
    with tempfile.TemporaryDirectory() as folder:
        told = _play(Path(folder), scenarios)
        source = open_source(Path(folder, "flash.img"))
        catalog = load_catalog(source)
        assert len(told) == len(scenarios) and not source.findings
        known = {session.base for session in catalog.sessions}
        for scenario, seen in zip(scenarios, told, strict=True):
            if not seen["entries"] and not scenario["data"]:
                continue
            assert known
            pair = catalog.find(scenario["sid"]).pair
            entries = [tuple(entry[:2]) for entry in seen["entries"]]
            assert [(r.offset, r.length - 1) for r in pair.records] == entries
            assert _crc(pair) == seen["crc"]
            kinds = zip(pair.records, seen["entries"], strict=True)
            assert all(r.rtype in (e[2], RecordType.UNKNOWN) or not r.ok for r, e in kinds)
            assert _kept(_lines(scenario), [r.raw for r in pair.records])
            if scenario["data"] is None:
                assert [r.rtype for r in pair.records] == _written(scenario)
                assert not [f for f in pair.findings if f.is_fault]
