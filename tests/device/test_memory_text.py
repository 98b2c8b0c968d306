"""The memory's word rules: folding, normal form, duplicates, fields."""

from given import shared
from remembered import vectors

from upyclaw.compat import json_loads
from upyclaw.memory import cuts, dedupe, keys, record, render, terms, text


def test_duplicate_pairs():
    pairs = vectors("dedupe.json")
    assert len(pairs) >= 150
    for pair in pairs:
        old = pair["existing"]
        new = pair["incoming"]
        got = dedupe.relation(old, new)
        assert got == pair["relation"], (old, new, got)


def test_index_numbers_never_hide_a_relative():
    for pair in vectors("dedupe.json"):
        a = keys.keys(pair["existing"])
        b = keys.keys(pair["incoming"])
        if pair["relation"] == "same":
            assert a[0] == b[0], pair
        elif pair["relation"]:
            assert keys.may_refine(a[1], b[1]) and keys.may_refine(b[1], a[1]), pair


def test_the_rule_is_the_same_seen_from_the_other_side():
    back = {"same": "same", "refines": "covered", "covered": "refines", "": ""}
    for pair in vectors("dedupe.json"):
        got = dedupe.relation(pair["incoming"], pair["existing"])
        assert got == back[pair["relation"]], pair


def test_fold():
    assert text.fold("ÀÉÎÕÜ ŁŻŹ ÆØÅ") == "àéîõü łżź æøå"
    assert text.fold("ПРИВЕТ Ёж ЇЄ") == "привет ёж їє"
    assert text.fold("ΆΛΦΑ ΩΣ ς") == "άλφα ωσ σ"
    assert text.fold("ＡＢＣ　１２３！") == "abc 123!"
    assert text.fold("Straße ẞ") == "strasse ss"
    assert text.fold("ĐẶNG ŸĸŉŽ") == "đặng ÿĸŉž"
    assert text.fold("汉字 かな 🐱") == "汉字 かな 🐱"


def test_cuts_fall_on_characters():
    word = "汉" * 50
    for limit in range(0, 151):
        cut = cuts.cut(word, limit)
        assert cut == "汉" * (limit // 3)
    assert cuts.cut("a🐱b", 4) == "a"
    assert cuts.cut("a🐱b", 5) == "a🐱"


def test_terms():
    assert terms.terms("") == []
    assert terms.terms("?!") == []
    assert terms.terms("The user likes to drink teas, doesn't he?") == ["drink", "tea", "doesn"]
    assert terms.terms("我喝乌龙茶") == ["我喝", "喝乌", "乌龙", "龙茶"]
    assert terms.terms("灯 C++ 17") == ["灯", "c++", "17"]
    assert len(terms.terms(" ".join([str(i) for i in range(500)]), 24)) == 24


def test_metadata_vectors():
    raw = shared("golden/vectors/metadata_normalise.json")
    if raw is None:
        return
    checked = 0
    for row in json_loads(raw):
        # A broken character at the end of a field, and control characters, are not kept (docs).
        odd = any([ord(c) < 32 or c == "\ufffd" for c in row["tags"]])
        content = cuts.cut(cuts.clean(row["content_in"]), record.CONTENT)
        tags = render.normal_tags(row["tags_in"])
        keywords = render.normal_keywords(row["keywords_in"], content, tags)
        if odd:
            assert len(tags.encode()) <= record.TAGS
            continue
        checked += 1
        assert content == row["content"], row
        assert tags == row["tags"], row
        assert keywords == row["keywords"], row
        assert record.labels_of(tags) == row["labels"], row
    assert checked >= 24, checked


def test_a_line_fits_a_reference_reader():
    item = {
        "id": "m" * 39,
        "source": "s" * 15,
        "content": '"' * 255,
        "tags": '"' * 95,
        "keywords": "\\" * 127,
        "created_at": 4294967295,
        "updated_at": 4294967295,
        "access_count": 65535,
        "deleted": False,
        "summary_ids": [65535, 65535, 65535],
        "pinned": True,
    }
    line = render.to_line(render.fit(item), True)
    assert len(line) <= 1022, len(line)
    back = record.from_line(line)
    assert back["content"] == item["content"] and len(back["content"]) > 100
    assert back["tags"] == '"' * 95 and back["pinned"]


def test_lines_of_any_kind():
    assert record.from_line(b"") is None
    assert record.from_line(b"[1,2]") is None
    assert record.from_line(b'{"id":""}') is None
    assert record.from_line(b"[" * 3000) is None
    assert record.from_line(b'{"id":"m_2","content":"half') is None
    assert record.from_line(b"\xff" * 20) is None
    item = record.from_line(b'{"ID":"h","Content":"case"}')
    assert item["id"] == "h" and item["content"] == "case"
    # B50: fractions and exponents; on a chip with 32-bit floats up to 64 s off.
    item = record.from_line(
        b'{"id":"m_1","content":"x","created_at":1760000077.0,"updated_at":1.760000077e9}'
    )
    for key in ("created_at", "updated_at"):
        assert isinstance(item[key], int) and abs(item[key] - 1760000077) <= 64
    item = record.from_line(b'{"id":"i","content":7,"access_count":70000,"updated_at":-5}')
    assert item["content"] == "" and item["access_count"] == 65535 and item["updated_at"] == 0
    # The reference cuts inside a character.
    item = record.from_line(b'{"id":"k","content":"ab\xe6\xb1"}')
    assert record.mend(item["content"]) == "ab"
