"""When are two facts one? The rule of docs/memory.md, "Duplicates".

Owns: `relation` and the two numbers the index keeps for it. Must not know about items or files.
In doubt two facts stay two: a duplicate costs a line, a wrong merge costs a fact (B25, WEAKNESSES
13-16). The model's judgement (gates.py) joins what no string rule can.
"""

from .text import fold, hash30, is_cjk, norm, strip

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


def _words(folded):
    """Words of a folded text; a lone `,` stands for any punctuation that ends a clause."""
    out = []
    start = 0
    n = len(folded)
    for i in range(n + 1):
        ch = folded[i] if i < n else " "
        if (
            ch == " "
            or ch in ",;:。、！？；：，!?(（—–"
            or (ch == "." and folded[i + 1 : i + 2] in ("", " "))
        ):
            inside = 0 < i < n - 1 and "0" <= folded[i - 1] <= "9" and "0" <= folded[i + 1] <= "9"
            if inside and ch != " ":
                continue
            word = folded[start:i]
            # An address or a path is no prose.
            word = strip(word) if word else word
            if word:
                out.append(word)
            if ch != " " and out and out[-1] != ",":
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
    if n < 2 and not (len(shorter[0]) >= 4 and is_cjk(ord(shorter[0][0]))):
        return False
    first = longer[n]
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
    """(key, signature) of a content: equal keys for equal facts, word bits for the quick refusal.

    If one fact refines another, the signature bits of the shorter are all in the longer's.
    """
    bits = 0
    for word in _words(_front(text)):
        if word != ",":
            bits |= 1 << (hash30(word) % 30)
    normal = norm(text)
    for word in _FRONT_NORM:
        if normal.startswith(word) and len(normal) > len(word):
            normal = normal[len(word) :]
            break
    return hash30(normal), bits


def relation(old, new):
    """What `new` is to `old`: SAME, REFINES (adds to it), COVERED (says less), else DIFFERENT."""
    a = _front(old)
    b = _front(new)
    if norm(a) == norm(b) or norm(old) == norm(new):
        return SAME
    a = _words(a)
    b = _words(b)
    if not a or not b:
        return DIFFERENT
    if _adds(b, a):
        return REFINES
    if _adds(a, b):
        return COVERED
    return DIFFERENT
