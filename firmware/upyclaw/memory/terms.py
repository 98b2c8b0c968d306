"""The words by which texts are compared: search terms, and how many two texts share.

Owns: what a term is, and the words that say nothing (docs/memory.md, "Recall"; B29). Must not know
about items or files.
"""

from .cuts import points, width
from .text import fold, is_cjk

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


def _digit(ch):
    return "0" <= ch <= "9"


def _is_word(c):
    # From U+2000 on there are signs, and scripts without blanks.
    return 97 <= c <= 122 or 48 <= c <= 57 or 65 <= c <= 90 or 0xC0 <= c < 0x2000


def stem(word):
    """`word` without a common English ending, so that `like`, `likes` and `liked` meet."""
    n = len(word)
    if n >= 5 and word.endswith("ies"):
        return word[:-3]
    for end, least in (("ing", 6), ("ed", 5)):
        if n >= least and word.endswith(end):
            word = word[: n - len(end)]
            # running, stopped
            last = word[-1:]
            return word[:-1] if last == word[-2:-1] and last not in "ls" else word
    if n >= 4 and word.endswith("s") and word[-2:-1] not in "su":
        word = word[:-1]
    return word[:-1] if len(word) >= 4 and word[-1:] in "ey" else word


# Chinese letters that mostly join others: one letter between two of them is a word by itself.
_JOINT = "的了是我你他她在有和吗呢吧什么怎哪谁几这那不没会能还也都要"


def terms(text, most=48):
    """Search terms of `text`, each once, in order: folded words (stemmed), and pairs of CJK
    letters.

    A single CJK letter is a term if it stands alone, as 茶 does in 我喝什么茶. Words that say
    nothing are left out. At most `most` terms.
    """
    found: list[str] = []
    data = (fold(text) + " ").encode()
    end = 0
    # Where the word, and the CJK letter before this one, begin; -1: there is none.
    word = before = -1
    # CJK letters since the last joint, or what is not CJK: how many, and the last.
    lone = 0
    letter = ""
    for c in points(data):
        if len(found) >= most:
            break
        at = end
        end += width(c)
        cjk = is_cjk(c)
        ch = data[at:end].decode() if cjk else ""
        if not cjk or ch in _JOINT:
            if lone == 1:
                _add(found, letter)
            lone = 0
        else:
            lone += 1
            letter = ch
        more = not cjk and (_is_word(c) or word >= 0 and (c == 43 or c == 35))
        if more and word < 0:
            word = at
        elif word >= 0 and not more:
            _add(found, data[word:at].decode())
            word = -1
        if cjk and before >= 0:
            _add(found, data[before:end].decode())
        before = at if cjk else -1
    return found


def _add(found, term):
    if " " + term + " " in STOP:
        return
    if ord(term[:1]) < 0x80:
        if len(term) < 2 and not _digit(term):
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
