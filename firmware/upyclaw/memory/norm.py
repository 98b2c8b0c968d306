"""The normal form: equal for two texts that differ in case, blanks and punctuation only.

Owns: which signs carry a meaning (docs/memory.md, "Duplicates"; B25). Must not know about items.
"""

from .cuts import letters
from .text import DROP, DROP_ASCII, fold, strip


def _is_digit(ch):
    return "0" <= ch <= "9"


_DROP_BYTES = DROP_ASCII.encode()
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
        for c in data:
            if c < 0x80 and c in _DROP_BYTES:
                break
        else:
            return token
    out = ""
    before = "-"
    for i, ch in enumerate(letters(token)):
        if ch not in DROP or (
            _is_digit(token[i + 1 : i + 2]) and (_is_digit(before) if i else ch == "-")
        ):
            out += ch
        before = ch
    return out


def norm(text):
    """The normal form: equal for two texts that differ in case, blanks and punctuation only.

    Numbers, symbols that carry meaning (`#`, `+`, `%`), addresses and emoji stay. A text of
    nothing but punctuation is its own normal form.
    """
    out = ""
    for token in fold(text).split():
        # An address, a path or a name of a program: its punctuation counts.
        value = "@" in token or "/" in token or "\\" in token or "_" in token
        token = strip(token) if value else _letters(token)
        if _is_digit(out[-1:]) and _is_digit(token[:1]):
            out += " "
        out += token
    return out or text.strip()
