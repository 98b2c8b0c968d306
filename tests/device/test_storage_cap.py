"""Tool results get one cap: short, clean, and honest about what is left out (B05, B53)."""

import json

from given import shared

from upyclaw.storage import json_escape
from upyclaw.storage.cap import LIMIT, cap_result


def test_short_text_is_unchanged():
    for text in ("", "21.5 °C", "line\nline\t" * 20, "x" * 200, "行" * 1000):
        assert cap_result(text.encode()) == text
        assert cap_result(text) == text


def test_long_text_is_cut_at_a_character_and_says_how_much_is_gone():
    data = ("行号一二三 " * 2000).encode()
    out = cap_result(data)
    size = len(out.encode())
    assert size <= LIMIT and out.startswith("行号一二三 ") and out.endswith(" bytes left out]")
    left = int(out[out.rfind("[") + 1 : out.rfind(" bytes")].replace(",", ""))
    kept = out[: out.rfind("…")]
    assert len(kept.encode()) + left == len(data)
    assert "… [" in out


def test_the_mark_has_thousands():
    assert cap_result(b"a b " * 15360).endswith(" bytes left out]")
    out = cap_result(b"a b " * 15360, 4136)
    assert out.endswith("… [57,344 bytes left out]")


def test_bad_bytes_become_replacement_characters():
    assert cap_result(b"temp \xff\xfe 21\xc3") == "temp \ufffd\ufffd 21\ufffd"
    out = cap_result(b"\xff" * 5000)
    assert len(out.encode()) <= LIMIT and out.endswith("left out]")
    json.loads(b'"' + json_escape(out) + b'"')


def test_a_data_url_becomes_a_mark():
    url = b"data:image/jpeg;base64," + b"QUJD" * 15354
    assert cap_result(url) == "[{:,} bytes left out]".format(len(url))
    out = cap_result(b'{"ok":true,"img":"' + url + b'","w":640}')
    assert out == '{"ok":true,"img":"[61,439 bytes left out]","w":640}'


def test_base64_in_one_line_becomes_a_mark():
    out = cap_result(b"photo: " + b"QUJDabc+/" * 5000 + b"\ndone")
    assert out == "photo: [45,000 bytes left out]\ndone"


def test_long_words_that_are_no_base64_stay():
    text = "http://example.org/" + "path.with;signs&" * 30
    assert cap_result(text) == text
    text = "行" * 300
    assert cap_result(text) == text


def test_cases_of_b53_and_b05():
    text = shared("cases/B53.json")
    if text is None:
        return
    cases = {c["name"]: c for c in json.loads(text)["cases"]}
    unit = cases["base64"]["input"]["tool_result"]
    size = cases["base64"]["input"]["repeat_to_bytes"]
    head, tail = unit.split(",")
    out = cap_result((head + "," + tail * (size // len(tail) + 1))[:size])
    assert len(out.encode()) <= cases["base64"]["expected"]["stored_bytes_at_most"]
    assert "61,440" in out
    unit = cases["cjk_log"]["input"]["tool_result_unit"]
    size = cases["cjk_log"]["input"]["repeat_to_bytes"]
    out = cap_result((unit * 3000).encode()[:size])
    assert out.startswith(unit) and len(out.encode()) <= 4096


def test_a_large_result_needs_little_time_and_heap():
    out = cap_result(b"x" * 100 + b"word and more words, " * 3000)
    assert len(out.encode()) <= LIMIT
