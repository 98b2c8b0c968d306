"""When are two facts one? The rule of docs/memory.md, "Duplicates".

Owns: `relation`. Must not know about items or files.
In doubt two facts stay two: a duplicate costs a line, a wrong merge costs a fact (B25, WEAKNESSES
13-16). The model's judgement (gates.py) joins what no string rule can.
"""

from .cuts import letters
from .keys import front, words
from .norm import norm
from .text import is_cjk

SAME = "same"
REFINES = "refines"
COVERED = "covered"
DIFFERENT = ""

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


def _adds(longer, shorter):
    """True if `longer` (words) is `shorter` followed by an addition that leaves it true."""
    n = len(shorter)
    if n >= len(longer) or longer[:n] != shorter:
        return False
    first = longer[n]
    if n < 2 and (first != "," or len(shorter[0]) < 4 or not is_cjk(ord(shorter[0][:1]))):
        return False
    if first != "," and " " + first + " " not in _LINK:
        return False
    for word in longer[n:]:
        if " " + word + " " in _TURN or word.endswith("n't"):
            return False
        for ch in letters(word):
            # Another number, or a turn in a script without word borders: no rule can tell.
            if "0" <= ch <= "9" or ch in _TURN_CJK:
                return False
    return True


def prepare(text):
    """What `compare` needs of a content: made once for a text that meets many."""
    bare = front(text)
    return norm(text), norm(bare), words(bare)


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
