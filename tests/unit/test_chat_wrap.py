"""Streamed text is broken between words, however it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from upyclaw_host.chat.wrap import Wrapper

_TEXT = st.text(alphabet=st.sampled_from("ab,. \n你好🔑é"), max_size=120)


def wrapped(pieces: list[str], width: int, column: int = 0) -> str:
    wrapper = Wrapper(width, column)
    return "".join(wrapper.feed(piece) for piece in pieces) + wrapper.finish()


def test_words_stay_whole():
    assert (
        wrapped(["She was a gen", "tle giant with fur"], 16) == "She was a gentle\ngiant with fur"
    )
    assert wrapped(["gentle giant"], 12, 7) == "\ngentle giant"
    assert wrapped(["one two"], 10, 7) == "one\ntwo"
    assert wrapped(["大门密码是4417"], 9) == "大门密码\n是4417"
    assert wrapped(["a\n\nb  c"], 80) == "a\n\nb  c"


@given(_TEXT, st.integers(2, 30), st.integers(0, 2), st.lists(st.integers(0, 120), max_size=6))
def test_nothing_is_lost_and_no_line_is_too_long(text, width, column, cuts):
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    out = wrapped(pieces, width, column)
    assert out == wrapped([text], width, column)
    assert "".join(out.split()) == "".join(text.split())
    for number, line in enumerate(out.split("\n")):
        room = width - column if number == 0 else width
        assert cell_len(line) <= room or " " not in line.strip()
