"""What of a line states something, and what only asks (docs/memory.md, "Filter"; B28).

Owns: the words of questions in some languages. Must not know the store. In doubt a line states
something: a wasted model call costs tokens, a lost fact costs trust.
"""

from .cuts import letters
from .spot import first_words, order_in, sentences
from .text import fold

# First words of a question, and of one that may lack its mark.
_ASK = (
    " what what's whats when when's where where's who who's whose whom which why why's how how's"
    " is are am was were do does did don't doesn't didn't can can't could couldn't would wouldn't"
    " will won't shall should may might have has had isn't aren't any"
    " was wer wie wo wann warum wieso welche welcher welches wem wen ist sind kannst können hast"
    " que quoi qui où quand comment pourquoi quel quelle est-ce qué quién dónde cuándo cómo cuál"
    " что кто где когда почему зачем как какой какая какие сколько можно "
)
_WH = (
    " what what's whats when where where's who who's whose which why how how's"
    " was wer wie wo wann warum wieso welche que quoi qui où quand comment pourquoi"
    " qué quién dónde cuándo cómo cuál что кто где когда почему зачем как сколько "
)
_AUX = (
    " is are am was were do does did can could would will should shall has have had many much long"
    " old far often about to ist sind habe hat kann soll est sont es son "
)
_PRONOUN = (
    " you it there we they he she this that the i my your du sie er es wir ihr tu vous usted"
    " ты вы "
)
_ASK_CJK = (
    "吗|嗎|呢？|什么|什麼|怎么|怎麼|为什么|為什麼|多少|哪里|哪裡|哪个|哪些|哪儿|哪天|几点|"
    "幾點|几号|是谁|谁是|誰|是不是|有没有|能不能|可不可以|会不会|ですか|ますか|何|どこ|いつ|"
    "だれ|なぜ|どう|뭐|무엇|어디|언제|누구|왜"
)

# Somebody speaks of themselves.
_SELF = (
    " i i'm im i'd i've i'll my mine me we our us ich mein meine meinen meiner mir wir unser"
    " unsere"
    " je j'ai mon ma mes nous notre yo mi mis me soy nosotros я мой моя моё мои мне меня у мы наш "
)
_SELF_CJK = "我俺咱私僕俺나저내제"


def _asks(piece):
    """True if the clause is a question by its words, mark or not."""
    folded = fold(piece).replace("’", "'")
    for word in _ASK_CJK.split("|"):
        if word in folded:
            return True
    words = first_words(folded)
    if len(words) > 1 and words[0] in (
        "and",
        "but",
        "so",
        "ok",
        "okay",
        "hey",
        "well",
        "und",
        "et",
        "y",
    ):
        words = words[1:]
    if not words:
        return False
    first = " " + words[0] + " "
    second = " " + words[1] + " " if len(words) > 1 else ""
    if first in _WH and ("'" in words[0] or not second or second in _AUX):
        return True
    # `what time is it`, but not `what I like is tea`.
    if words[0] in ("what", "which", "how", "welche", "welcher", "quel", "quelle"):
        return len(words) > 2 and " " + words[2] + " " in _AUX and second not in _PRONOUN
    return first in _ASK and first not in _WH and second in _PRONOUN and second != ""


def is_self(piece):
    """True if somebody speaks of themselves in it."""
    folded = fold(piece).replace("’", "'")
    for word in folded.split():
        if " " + word.strip(',.:;!?"()') + " " in _SELF:
            return True
    for ch in letters(_SELF_CJK):
        if ch in folded:
            return True
    return False


def statements(text):
    """The part of the user's line that states something: its questions left out (B28).

    Of `I'm vegan, what can I cook?` the first clause stays.
    """
    out = []
    for piece, mark in sentences(text):
        if mark != "?":
            if not _asks(piece) or order_in(piece)[0]:
                out.append(piece)
            continue
        if order_in(piece)[0]:
            out.append(piece)
            continue
        # A clause before the question may state something about the user.
        clauses = []
        for part in piece.replace("，", ",").split(","):
            clauses.append(part.strip())
        words = first_words(fold(clauses[0]))
        if _asks(clauses[0]) or (words and " " + words[0] + " " in _ASK):
            continue
        if len(clauses) == 1 and " " + words[0] + " " in _SELF and len(piece.split()) > 3:
            # "My favourite colour is blue and yours?"
            out.append(piece)
        for clause in clauses[:-1]:
            if is_self(clause) and not _asks(clause):
                out.append(clause)
    return "\n".join(out)
