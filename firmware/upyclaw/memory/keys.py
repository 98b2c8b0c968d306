"""The two numbers by which the index knows a content, and the words of it.

Owns: `keys` and what it is made of (docs/memory.md, "Duplicates"). Must not know about items or
files.
"""

from .cuts import hash30, letters
from .norm import norm
from .text import fold, strip

# Who the fact is about when it is about the user; at the front these words add nothing.
_FRONT = ("the user ", "user ", "用户", "用戶", "我")
_FRONT_NORM = ("theuser", "user", "用户", "用戶", "我")
_CLAUSE = ",;:。、！？；：，!?(（—–"


def front(text):
    folded = fold(text).strip()
    for word in _FRONT:
        # 我们 is not 我.
        if folded.startswith(word) and folded[len(word) : len(word) + 1] not in ("们", "們", ""):
            return folded[len(word) :]
    return folded


def words(folded):
    """Words of a folded text; a lone `,` stands for any punctuation that ends a clause."""
    for ch in letters(_CLAUSE):
        if ch in folded:
            break
    else:
        if ". " not in folded:
            words = [strip(word) for word in folded.split()]
            return [word for word in words if word]
    out = []
    start = 0
    for i, ch in enumerate(letters(folded + " ")):
        stop = ch in _CLAUSE or (ch == "." and folded[i + 1 : i + 2] in ("", " "))
        if ch != " " and not stop:
            continue
        if stop and "0" <= folded[i - 1 : i] <= "9" and "0" <= folded[i + 1 : i + 2] <= "9":
            # Inside a number.
            continue
        word = strip(folded[start:i])
        if word:
            out.append(word)
        if stop and out and out[-1] != ",":
            out.append(",")
        start = i + 1
    while out and out[-1] == ",":
        out.pop()
    return out


def keys(text):
    """(key, signature) of a content: equal keys for equal facts, bits for the quick refusal.

    If one fact refines another, `may_refine` of their signatures is true.
    """
    found = words(front(text))
    bits = 0
    for word in found:
        if word != ",":
            bits |= 1 << (hash30(word) % 18)
    # The shorter of two is the beginning of the longer.
    head = found[0] if found else ""
    if len(found) > 1 and found[1] != ",":
        head += " " + found[1]
    normal = norm(text)
    for word in _FRONT_NORM:
        if normal.startswith(word) and len(normal) > len(word):
            normal = normal[len(word) :]
            break
    return hash30(normal), bits | (hash30(head) & 0xFFF) << 18


def may_refine(a, b):
    """False if, by their signatures, neither of two contents can refine the other."""
    if a >> 18 != b >> 18:
        return False
    both = a & b
    return both == a or both == b
