"""When are two facts one? The rule of docs/memory.md, "Duplicates".

Owns: `relation` and the two numbers the index keeps for it. Must not know about items or files.
In doubt two facts stay two: a duplicate costs a line, a wrong merge costs a fact (B25, WEAKNESSES
13-16). The model's judgement (gates.py) joins what no string rule can.
"""

from .norm import norm
from .text import fold, hash30, is_cjk, strip

SAME = "same"
REFINES = "refines"
COVERED = "covered"
DIFFERENT = ""

# Who the fact is about when it is about the user; at the front these words add nothing.
_FRONT = ("the user ", "user ", "用户", "用戶", "我")
_FRONT_NORM = ("theuser", "user", "用户", "用戶", "我")

# An addition that starts with one of these leaves the first part true as it stands.
_LINK = (
    " and plus with in at on near from by because since every each daily weekly always whenever"
    " when while after before during who which whose that where named called especially via"
    " und sowie mit im am bei seit weil wenn jeden jede jedes namens"
    " et avec dans depuis parce chaque y e con desde cada porque"
    " и с в на потому каждый каждое каждую когда "
)
# An addition with one of these turns the first part round or restricts it.
_TURN = (
    " not no never none nor without except unless until but however although though instead only"
    " rather formerly previously used anymore longer cannot isn't aren't wasn't don't doesn't"
    " didn't"
    " won't can't hasn't haven't isnt dont doesnt didnt wont cant hardly rarely or if"
    " nicht kein keine keinen nie niemals ohne außer aber sondern nur früher oder"
    " pas jamais sans sauf mais seulement ne ou ni nunca jamás sin salvo pero sino sólo solo"
    " не нет ни без кроме но только никогда раньше или "
)
_TURN_CJK = "不没沒無无未非别別勿但却卻除只仅僅或ない"


def _front(text):
    folded = fold(text).strip()
    for word in _FRONT:
        # 我们 is not 我.
        if folded.startswith(word) and folded[len(word) : len(word) + 1] not in ("们", "們", ""):
            return folded[len(word) :]
    return folded


_CLAUSE = ",;:。、！？；：，!?(（—–"


def _words(folded):
    """Words of a folded text; a lone `,` stands for any punctuation that ends a clause."""
    for ch in _CLAUSE:
        if ch in folded:
            break
    else:
        if ". " not in folded:
            words = [strip(word) for word in folded.split()]
            return [word for word in words if word]
    out = []
    start = 0
    n = len(folded)
    for i, ch in enumerate(folded + " "):
        stop = ch in _CLAUSE or (ch == "." and folded[i + 1 : i + 2] in ("", " "))
        if ch != " " and not stop:
            continue
        inside = 0 < i < n - 1 and "0" <= folded[i - 1] <= "9" and "0" <= folded[i + 1] <= "9"
        if inside and stop:
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


def _adds(longer, shorter):
    """True if `longer` (words) is `shorter` followed by an addition that leaves it true."""
    n = len(shorter)
    if n >= len(longer) or longer[:n] != shorter:
        return False
    first = longer[n]
    if n < 2 and (first != "," or len(shorter[0]) < 4 or not is_cjk(ord(shorter[0][0]))):
        return False
    if first != "," and " " + first + " " not in _LINK:
        return False
    for word in longer[n:]:
        if " " + word + " " in _TURN or word.endswith("n't"):
            return False
        for ch in word:
            # Another number, or a turn in a script without word borders: no rule can tell.
            if "0" <= ch <= "9" or ch in _TURN_CJK:
                return False
    return True


def keys(text):
    """(key, signature) of a content: equal keys for equal facts, bits for the quick refusal.

    If one fact refines another, `may_refine` of their signatures is true.
    """
    words = _words(_front(text))
    bits = 0
    for word in words:
        if word != ",":
            bits |= 1 << (hash30(word) % 18)
    # The shorter of two is the beginning of the longer.
    head = words[0] if words else ""
    if len(words) > 1 and words[1] != ",":
        head += " " + words[1]
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


def prepare(text):
    """What `compare` needs of a content: made once for a text that meets many."""
    front = _front(text)
    return norm(text), norm(front), _words(front)


def compare(old, new):
    """`relation` of two prepared contents."""
    if old[0] == new[0] or old[1] == new[1]:
        return SAME
    a = old[2]
    b = new[2]
    if not a or not b:
        return DIFFERENT
    if _adds(b, a):
        return REFINES
    return COVERED if _adds(a, b) else DIFFERENT


def relation(old, new):
    """What `new` is to `old`: SAME, REFINES (adds to it), COVERED (says less), else DIFFERENT."""
    return compare(prepare(old), prepare(new))
