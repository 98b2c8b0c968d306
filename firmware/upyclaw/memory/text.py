"""How the memory looks at words: case folding, the normal form, search terms, clean lines.

Owns: every rule that says when two spellings are one (docs/memory.md, SPEC-longterm §3, B25, B29).
Must not know about items, files or models. Same results on MicroPython and CPython: `str.lower`
and `str.isalpha` differ between them and are used for ASCII only.
"""

from binascii import crc32

# Dropped by the normal form, unless they stand between two digits or inside an address or a path.
_DROP_ASCII = "!\"'(),-.:;<>?[]`{}~*|/\\_"
_DROP = _DROP_ASCII + (
    "。、！？；：，（）【】《》〈〉〔〕「」『』“”‘’„‚‹›«»·•…—–‐‑‒―～¿¡・｡､･｢｣．"
    "\xad\u200b\u200c\u200d\u200e\u200f\ufe0f\ufeff"
)
# A token with one of these is an address, a path or a name of a program: its punctuation counts.
_VALUE = "@/\\_"


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
    out = []
    for ch in text:
        c = ord(ch)
        if 0xFF01 <= c <= 0xFF5E:
            c -= 0xFEE0
            ch = chr(c)
        if c < 0x80:
            out.append(ch.lower())
        elif c == 0xDF or c == 0x1E9E:
            out.append("ss")
        elif is_space(c):
            out.append(" ")
        else:
            out.append(chr(_lower(c)))
    return "".join(out)


def clean(text):
    """`text` in one line: every control character becomes a blank, the ends are trimmed."""
    for ch in text:
        c = ord(ch)
        if c < 0x20 or 0x7F <= c < 0xA0 or c == 0x2028 or c == 0x2029:
            break
    else:
        return text.strip(" ")
    out = []
    for ch in text:
        c = ord(ch)
        out.append(" " if c < 0x20 or 0x7F <= c < 0xA0 or c == 0x2028 or c == 0x2029 else ch)
    return "".join(out).strip(" ")


def cut(text, limit):
    """The longest beginning of `text` with at most `limit` bytes of UTF-8, whole characters."""
    data = text.encode()
    if len(data) <= limit:
        return text
    n = limit
    while n and data[n] & 0xC0 == 0x80:
        n -= 1
    return data[:n].decode()


def drops(ch):
    """True if `ch` is punctuation that carries no meaning of its own."""
    return ch in _DROP


def strip(word, chars=_DROP):
    """`word` without punctuation (or `chars`) at its ends; `str.strip` takes ASCII only here."""
    a = 0
    b = len(word)
    while a < b and word[a] in chars:
        a += 1
    while b > a and word[b - 1] in chars:
        b -= 1
    return word[a:b]


def _is_digit(ch):
    return "0" <= ch <= "9"


# Beginnings of the punctuation above that is not ASCII.
_DROP_LEADS = (b"\xe3\x80", b"\xe2\x80", b"\xef", b"\xc2")


def _letters(token):
    """`token` without punctuation, except what divides digits or signs a number (`3.5`, `-5`)."""
    if token.isalpha() or token.isdigit():
        return token
    data = token.encode()
    for lead in _DROP_LEADS:
        if lead in data:
            break
    else:
        # 29 quick looks instead of a walk: most tokens of Chinese text hold no ASCII at all.
        for ch in _DROP_ASCII:
            if ch in token:
                break
        else:
            return token
    out = []
    last = len(token) - 1
    for i, ch in enumerate(token):
        if ch in _DROP:
            number_follows = i < last and _is_digit(token[i + 1])
            if not number_follows or not (_is_digit(token[i - 1]) if i else ch == "-"):
                continue
        out.append(ch)
    return "".join(out)


def norm(text):
    """The normal form: equal for two texts that differ in case, blanks and punctuation only.

    Numbers, symbols that carry meaning (`#`, `+`, `%`), addresses and emoji stay. A text of
    nothing but punctuation is its own normal form.
    """
    out = ""
    for token in fold(text).split():
        plain = True
        for ch in _VALUE:
            if ch in token:
                plain = False
        token = _letters(token) if plain else strip(token)
        if token and out and _is_digit(out[-1]) and _is_digit(token[0]):
            out += " "
        out += token
    return out or text.strip()


def hash30(text):
    """A 30-bit hash of `text` (str or bytes): a small integer on a 32-bit chip."""
    return crc32(text if isinstance(text, bytes) else text.encode()) & 0x3FFFFFFF


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
