"""Orders to the memory, recognised by their first words: looked for in every line of the user.

Owns: the words of such orders in some languages, and where a sentence ends. Must not know the
store.
"""

from .cuts import clean, points, width
from .text import fold, strip

_REMEMBER = (
    "please remember|remember|please note|note to self|make a note|take a note|memorize|"
    "memorise|keep in mind|bear in mind|don't forget|do not forget|can you remember|"
    "could you remember|i want you to remember|merk dir|merke dir|bitte merk dir|"
    "bitte merke dir|vergiss nicht|notiere|retiens|souviens-toi|n'oublie pas|note que|"
    "recuerda|no olvides|anota|запомни|пожалуйста, запомни|не забудь|запиши"
)
_REMEMBER_CJK = (
    "请记住|請記住|请你记住|帮我记住|帮我记下|帮我记一下|你要记住|记住|記住|记下来|记下|記下|"
    "记一下|記一下|请记下|请记得|别忘了|別忘了|不要忘记|不要忘了|覚えておいて|覚えて|"
    "メモして|기억해줘|기억해"
)
_FORGET = (
    "please forget|forget|delete the memory|delete memory|remove the memory|vergiss|"
    "bitte vergiss|oublie|olvida|забудь"
)
_FORGET_CJK = "请忘记|请忘掉|忘记|忘掉|忘了|請忘記|忘記|忘れて|잊어줘"
# ? ! ; line end, and the full-width forms of 。？！；
_ENDS = (63, 33, 59, 10, 0x3002, 0xFF1F, 0xFF01, 0xFF1B)
# What may stand between the order and the fact. Lists with | are divided by it.
_THAT = "that |this: |this, |the fact that |about |dass |que |qu'|что |of |for me "


def sentences(text):
    """[(text, mark)] of a line: mark is "?" or "."; line breaks end a sentence too."""
    data = text.encode()
    out = []
    start = at = 0
    for c in points(data):
        end = at
        at += width(c)
        if c in _ENDS or (c == 46 and data[at : at + 1] in (b"", b" ", b"\n")):
            piece = data[start:end].decode().strip()
            if piece:
                out.append((piece, "?" if c == 63 or c == 0xFF1F else "."))
            start = at
    piece = data[start:].decode().strip()
    if piece:
        out.append((piece, "."))
    return out


def first_words(folded, n=3):
    """The first `n` words of a folded text, without punctuation."""
    return [w.strip(",.:;\"'()") for w in folded.split()[:n]]


def _after(text, folded, starts, blank):
    """What follows one of `starts` in `text`, or None."""
    for word in starts.split("|"):
        if folded.startswith(word):
            rest = text[len(word) :]
            if blank and rest and rest[:1] not in " :,：，":
                continue
            colon = rest.lstrip(" ")[:1] in (":", "：")
            while rest and rest[:1] in " :,：，":
                rest = rest[1:]
            return rest, colon
    return None


def order_in(text):
    """("store"|"forget"|"", what) of one clause; see `order`."""
    # fold keeps the number of characters but for ß, which no order begins with.
    head = fold(text[:40]).replace("’", "'")
    for kind, plain, cjk in (
        ("store", _REMEMBER, _REMEMBER_CJK),
        ("forget", _FORGET, _FORGET_CJK),
    ):
        found = _after(text, head, plain, True) or _after(text, head, cjk, False)
        if not found:
            continue
        rest, colon = found
        that = False
        for word in _THAT.split("|"):
            if fold(rest[: len(word)]) == word:
                rest = rest[len(word) :]
                that = True
                break
        if not strip(rest, " .!?。！？"):
            continue
        words = first_words(fold(rest), 2)
        first = words[0] if words else ""
        # A reminder, a reminiscence, or no order at all.
        if not colon and not that and first in ("to", "me", "when", "how", "what", "it", "about"):
            continue
        if not colon and first in ("it", "this", "them", "everything"):
            continue
        return kind, rest
    return "", ""


def order(text):
    """An order to the memory in the user's own words: ("store", fact), ("forget", what), ("", "").

    `Remember: bin day is Thursday` · `记住：我对花生过敏` · `Forget that I like tea`. Only where
    the line begins with it, and never a question.
    """
    text = clean(text)
    pieces = sentences(text)
    if not pieces or (pieces[0][1] == "?" and fold(text[:3]) not in ("can", "cou")):
        return "", ""
    kind, rest = order_in(text)
    return kind, rest.strip(" ")
