"""How the memory looks at words: case folding, the normal form, search terms, clean lines.

Owns: every rule that says when two spellings are one (docs/memory.md, SPEC-longterm §3, B25, B29).
Must not know about items, files or models. Same results on MicroPython and CPython: `str.lower`
and `str.isalpha` differ between them and are used for ASCII only.
"""

from .cuts import points, put

# Dropped by the normal form, unless they stand between two digits or inside an address or a path.
DROP_ASCII = "!\"'(),-.:;<>?[]`{}~*|/\\_"
DROP = DROP_ASCII + (
    "。、！？；：，（）【】《》〈〉〔〕「」『』“”‘’„‚‹›«»·•…—–‐‑‒―～¿¡・｡､･｢｣．"
    "\xad\u200b\u200c\u200d\u200e\u200f\ufe0f\ufeff"
)


def _lower(c):
    """Small letter of code point `c` >= 0x80 (Latin, Greek, Cyrillic), else `c`."""
    if c < 0x100:
        return c + 32 if 0xC0 <= c <= 0xDE and c != 0xD7 else c
    if c < 0x180:
        if c == 0x130:
            return 0x69
        if c == 0x178:
            return 0xFF
        if c == 0x17F:
            return 0x73
        if 0x139 <= c <= 0x148 or c > 0x178:
            return c + 1 if c & 1 else c
        return c if c == 0x138 else c | 1
    if 0x386 <= c <= 0x3C2:
        if 0x391 <= c <= 0x3AB:
            return c + 32
        if c == 0x3C2:
            return 0x3C3
        if c <= 0x38F:
            return {0x386: 0x3AC, 0x38C: 0x3CC, 0x38E: 0x3CD, 0x38F: 0x3CE}.get(
                c, c + 37 if 0x388 <= c <= 0x38A else c
            )
        return c
    if 0x400 <= c < 0x530:
        if c < 0x430:
            return c + 80 if c < 0x410 else c + 32
        if 0x4C0 <= c <= 0x4CE:
            return 0x4CF if c == 0x4C0 else c + (c & 1)
        return c | 1 if 0x460 <= c <= 0x481 or c >= 0x48A else c
    if 0x1E00 <= c <= 0x1EFF and not 0x1E96 <= c <= 0x1E9F:
        return c | 1
    return c


def is_space(c):
    """True for a code point that is a blank of any kind or a control character."""
    return (
        c <= 0x20
        or 0x7F <= c <= 0xA0
        or c == 0x3000
        or 0x2000 <= c <= 0x200A
        or c in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F)
    )


# What UTF-8 letters with a small form begin with, and full-width forms, and odd blanks.
_FOLDING = (b"\xc3", b"\xc4", b"\xc5", b"\xce", b"\xcf", b"\xd0", b"\xd1", b"\xd2", b"\xd3")
_FOLDING3 = (b"\xd4", b"\xe1\xb8", b"\xe1\xb9", b"\xe1\xba", b"\xe1\xbb", b"\xef\xbc")
_FOLDING4 = (b"\xef\xbd", b"\xe3\x80\x80", b"\xe2\x80", b"\xe2\x81", b"\xe1\x9a", b"\xc2")


def folds(data):
    """True if `fold` does more to the UTF-8 text `data` (bytes) than small ASCII letters."""
    for leads in (_FOLDING, _FOLDING3, _FOLDING4):
        for lead in leads:
            if lead in data:
                return True
    return False


def fold(text):
    """`text` with small letters, full-width forms as ASCII, every blank as U+0020."""
    data = text.encode()
    if len(text) == len(data) or not folds(data):
        # bytes.lower knows ASCII only, on both runtimes.
        return data.lower().decode()
    out = bytearray()
    for c in points(data):
        if 0xFF01 <= c <= 0xFF5E:
            c -= 0xFEE0
        if c < 0x80:
            out.append(c + 32 if 65 <= c <= 90 else c)
        elif c == 0xDF or c == 0x1E9E:
            out.extend(b"ss")
        else:
            put(out, 32 if is_space(c) else _lower(c))
    return bytes(out).decode()


def strip(word, chars=DROP):
    """`word` without punctuation (or `chars`) at its ends; `str.strip` takes ASCII only here."""
    a = 0
    b = len(word)
    while a < b and word[a : a + 1] in chars:
        a += 1
    while b > a and word[b - 1 : b] in chars:
        b -= 1
    return word[a:b]


def is_cjk(c):
    """True for a code point of a script without blanks between words (Han, kana), or Hangul."""
    return (
        0x3041 <= c <= 0x30FF
        or 0x3400 <= c <= 0x9FFF
        or 0xAC00 <= c <= 0xD7A3
        or 0xF900 <= c <= 0xFAFF
        or 0x20000 <= c <= 0x3FFFF
        or c == 0x3005
    )
