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

# Words that say nothing about what a text is about: no search term, no grounding.
STOP = (
    " a an the i me my mine we us our you your he him his she her it its they them their this that"
    " these those is am are was were be been being do does did have has had will would can could"
    " should may might must shall not no nor so to of in on at by for from with about into as and"
    " or"
    " but if then than there here what when where who whom which whose why how user users s t m re"
    " ve ll d just also very too please tell know like likes want wants get got any some all more"
    " ok okay yes now need needs"
    " ich du er sie es wir ihr mein meine dein deine der die das ein eine einen und oder ist bin"
    " sind"
    " war hat habe zu von mit in im am auf nicht was wie wo wer wann warum den dem des"
    " le la les un une des je tu il elle nous vous est et ou de du en mon ma mes que qui"
    " el los las una yo es son y o mi mis tu su se por para con como"
    " и в на с я ты он она мы вы не что как где кто это мой моя по у за"
    " 我的 你的 他的 她的 的是 是什 什么 什麼 么时 时候 是不 不是 用户 用戶 我们 你们 他们 一个"
    " 这个"
    " 那个 怎么 怎麼 哪里 哪个 哪些 喜欢 喜歡 想要 可以 知道 告诉 现在 还有 我是 我在 我有 你知"
    " 吗？"
    " です ます した して ます。 でした 私は 私の です。 は何 何で ですか すか 입니 니다 나는"
    " 저는 내가 "
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


def _is_word(ch, c):
    return (
        ch.isalpha() or _is_digit(ch) if c < 0x80 else c >= 0xC0 and not drops(ch) and c < 0x2000
    )


def stem(word):
    """`word` without a common English ending, so that `like`, `likes` and `liked` meet."""
    n = len(word)
    if n >= 5 and word.endswith("ies"):
        return word[:-3]
    for end, least in (("ing", 6), ("ed", 5)):
        if n >= least and word.endswith(end):
            word = word[: n - len(end)]
            # running, stopped
            return word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word
    if n >= 4 and word[-1] == "s" and word[-2] not in "su":
        word = word[:-1]
    return word[:-1] if len(word) >= 4 and word[-1] in "ey" else word


# Chinese letters that mostly join others: one letter between two of them is a word by itself.
_JOINT = "的了是我你他她在有和吗呢吧什么怎哪谁几这那不没会能还也都要"


def terms(text, most=48):
    """Search terms of `text`, each once, in order: folded words (stemmed), and pairs of CJK
    letters.

    A single CJK letter is a term if it stands alone, as 茶 does in 我喝什么茶. Words that say nothing
    are left out. At most `most` terms.
    """
    found: list[str] = []
    word = ""
    # Letters since the last blank: the newest two, and those since the last joint.
    run = ""
    lone = ""
    for ch in fold(text) + " ":
        if len(found) >= most:
            break
        c = ord(ch)
        cjk = is_cjk(c)
        if not cjk or ch in _JOINT:
            if len(lone) == 1:
                _add(found, lone)
            lone = ""
        if cjk:
            if word:
                _add(found, word)
                word = ""
            if ch not in _JOINT:
                lone += ch
            run += ch
            if len(run) > 1:
                _add(found, run[-2:])
                run = run[-2:]
            continue
        run = ""
        if _is_word(ch, c) or (word and ch in "+#"):
            word += ch
        elif word:
            _add(found, word)
            word = ""
    return found


def _add(found, term):
    if " " + term + " " in STOP:
        return
    if ord(term[0]) < 0x80:
        if len(term) < 2 and not _is_digit(term):
            return
        term = stem(term)
    if term not in found:
        found.append(term)


def shares(wanted, text):
    """How many of the terms `wanted` (list) occur in `text`."""
    have = terms(text, 200)
    n = 0
    for term in wanted:
        if term in have:
            n += 1
    return n
