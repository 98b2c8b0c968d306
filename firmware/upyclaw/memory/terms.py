"""The words by which texts are compared: search terms, and how many two texts share.

Owns: what a term is, and the words that say nothing (docs/memory.md, "Recall"; B29). Must not know
about items or files.
"""

from .text import drops, fold, is_cjk

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


def _is_word(ch, c):
    return ch.isalpha() or _digit(ch) if c < 0x80 else c >= 0xC0 and not drops(ch) and c < 0x2000


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

    A single CJK letter is a term if it stands alone, as 茶 does in 我喝什么茶. Words that say
    nothing are left out. At most `most` terms.
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
