"""The normal form: equal for two texts that differ in case, blanks and punctuation only.

Owns: which signs carry a meaning (docs/memory.md, "Duplicates"; B25). Must not know about items.
"""

from .text import DROP, DROP_ASCII, fold, strip

# A token with one of these is an address, a path or a name of a program: its punctuation counts.
_VALUE = "@/\\_"


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
        for ch in DROP_ASCII:
            if ch in token:
                break
        else:
            return token
    out = []
    last = len(token) - 1
    for i, ch in enumerate(token):
        if ch in DROP:
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
