"""Frames: layout, escapes, check sum."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upyclaw.channels import outbox as device
from upyclaw_host.link import frames


@given(st.binary(max_size=118), st.integers(0, 3), st.integers(0, 255), st.booleans())
def test_a_frame_is_one_line_without_control_bytes_and_reads_back(payload, stream, seq, last):
    line = frames.data(stream, payload, epoch=7, number=200, seq=seq, first=True, last=last)
    assert line.endswith(b"\n")
    assert not [c for c in line[:-1] if c < 0x20 or c == 0x7F]
    assert line.count(frames.MARK) == 1
    frame = frames.parse(line[:-1])
    assert (frame.kind, frame.digit, frame.epoch, frame.number) == ("D", stream, 7, 200)
    assert (frame.seq, frame.first, frame.last, frame.payload) == (seq, True, last, payload)


@given(st.binary(max_size=300), st.integers(20, 237))
def test_payload_is_cut_where_the_room_ends(data, room):
    count = frames.take_payload(data, room)
    assert len(frames.escape(data[:count])) <= room
    assert count == len(data) or len(frames.escape(data[: count + 1])) > room


@given(st.binary(max_size=200))
def test_both_ends_undo_escapes_alike(data):
    line = bytearray(frames.escape(data))
    end = device.unescape(line, 0, len(line))
    assert bytes(line[:end]) == data == frames.unescape(frames.escape(data))


@given(st.data())
def test_a_damaged_frame_is_no_frame(data):
    line = frames.data(1, b"hello", epoch=1, number=2, seq=3, first=True, last=True)[:-1]
    at = data.draw(st.integers(2, len(line) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != line[at]))
    broken = line[:at] + bytes([byte]) + line[at + 1 :]
    with pytest.raises(frames.Damaged):
        frames.parse(broken)


@pytest.mark.parametrize("cut", [0, 2, 5, 13, 20])
def test_a_short_frame_is_no_frame(cut):
    line = frames.data(1, b"hello", epoch=1, number=2, seq=3, first=True, last=True)[:-1]
    with pytest.raises(frames.Damaged):
        frames.parse(line[:cut])


def test_the_examples_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "link.md").read_text("utf-8")
    kinds = []
    for line in text.split("## Example")[1].splitlines():
        if line[:2] in ("> ", "< ") and "~u" in line:
            frame = line[line.index("~u") :].split("  ")[0].encode()
            kinds.append(frames.parse(frame).kind)
    assert kinds == list("YRYZDDDDADD?PD")
