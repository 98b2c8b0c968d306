"""Texts leave nothing behind in the heap, whatever script they are in.

MicroPython interns every character that `for ch in text`, `text[i]` or `chr` gives, for good: 18
bytes each, and the table of them doubles when it is full. A thousand Chinese characters would take
20 KB of a board that has 40.
"""

import gc

from upyclaw.compat import MICROPYTHON, join_surrogates, json_loads
from upyclaw.memory import asks, dedupe, filter, keys, label, norm, quote, safety, spot, terms
from upyclaw.memory.store import MemoryStore
from upyclaw.prompt.clean import is_blank
from upyclaw.storage import user_record

# Bytes that may differ between two looks at the same heap.
NOISE = 512


def characters(first, n):
    """A text of `n` different characters from code point `first` on, made without walking."""
    data = bytearray()
    for c in range(first, first + n):
        data.extend(bytes((0xE0 | c >> 12, 0x80 | c >> 6 & 63, 0x80 | c & 63)))
    return bytes(data).decode()


def look_at(store, text):
    other = text[1:] + "，" + text[:1]
    for one in (
        text,
        "记住：" + text,
        "密码是" + text,
        text + "？我" + other,
        " ".join([text, other]),
    ):
        filter.why_not(one)
        spot.order(one)
        asks.statements(one)
        norm.norm(one)
        keys.keys(one)
        terms.terms(one)
        label.label_for(one)
        quote.quoted(one)
        safety.mask(one)
        safety.is_order(one)
        is_blank(one)
        user_record(one)
        join_surrogates(one)
        json_loads('["\\u4e00' + one + '"]')
        dedupe.relation(one, one + "，因为" + other)
        store.search(one)


def test_characters_do_not_stay(root):
    if not MICROPYTHON:
        print("SKIP: about MicroPython's heap")
        return
    store = MemoryStore(root)
    store.store("我对花生过敏", "健康")
    look_at(store, characters(0x4E00, 12))
    gc.collect()
    before = gc.mem_alloc()
    # Han, Hangul, kana with a mark, Georgian: 600 characters.
    for first, n in ((0x5000, 400), (0xB000, 100), (0x3041, 50), (0x10A0, 50)):
        for at in range(first, first + n, 25):
            look_at(store, characters(at, 25))
    gc.collect()
    assert gc.mem_alloc() - before < NOISE, gc.mem_alloc() - before
