"""What a user's line is, told without a model: small talk, a question, an order to remember.

Owns: the word lists and patterns for it (docs/memory.md, "Filter"). Must not know the store. In
doubt a line is a statement: a wasted model call costs tokens, a lost fact costs trust.
"""

from .norm import norm
from .spot import first_words, order_in, sentences
from .terms import terms
from .text import fold, is_cjk

# The whole line in normal form.
_SMALL_TALK = (
    " hi hello hey heythere hithere yo thanks thankyou thankyousomuch thanksalot thx ty ok okay k"
    " okthanks okaythanks yes no yep nope yeah sure great cool nice perfect wow lol haha hahaha"
    " good"
    " alright gotit isee bye goodbye seeyou cya goodmorning goodnight goodevening howareyou"
    " howareyoudoing whatsup sorry please continue goon next stop nevermind forgetit forgetaboutit"
    " welldone goodjob goodbot hmm hm um oh ah lolok okcool nothanks yesplease thatsall test ping"
    " hallo danke dankeschön ja nein tschüss gutenmorgen gutentag gutenabend bitte genau super"
    " prima"
    " moin servus vielendank dankesehr salut bonjour merci oui non bonsoir hola gracias sí si"
    " adiós buenosdías"
    " привет спасибо да нет пока здравствуйте доброеутро хорошо ок понятно"
    " 你好 您好 谢谢 謝謝 谢谢你 多谢 好 好的 好吧 嗯 嗯嗯 哦 行 可以 对 是 是的 不 不是 不用"
    " 没事 没关系 再见 拜拜"
    " 早 早上好 晚上好 晚安 哈哈 哈哈哈 嘿 在吗 你好吗 辛苦了 知道了 明白 明白了 收到 继续 算了"
    " 不错 很好 太好了"
    " ありがとう ありがとうございます こんにちは おはよう おはようございます こんばんは はい"
    " いいえ さようなら"
    " おやすみ わかりました 안녕 안녕하세요 감사합니다 네 아니요 "
)

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

# First words of a request to the assistant.
_REQUEST = (
    " write translate summarize summarise explain show tell give list play open close turn set"
    " start"
    " search find calculate compute convert draw make create generate read repeat say sing draft"
    " rewrite fix check help describe compare recommend suggest count print run count define spell"
    " schreibe schreib übersetze erkläre zeig zeige sag nenne mach öffne écris traduis explique"
    " escribe traduce explica dime напиши переведи объясни покажи расскажи скажи "
)
_REQUEST_CJK = (
    "请|請|帮我|幫我|给我|給我|翻译|翻譯|写一|寫一|打开|打開|关闭|關閉|播放|告诉我|告訴我|"
    "解释|解釋|总结|總結|讲一个|说一下|介绍|推荐|计算|查一下|搜索"
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


def _is_self(piece):
    folded = fold(piece).replace("’", "'")
    for word in folded.split():
        if " " + word.strip(',.:;!?"()') + " " in _SELF:
            return True
    for ch in _SELF_CJK:
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
            if _is_self(clause) and not _asks(clause):
                out.append(clause)
    return "\n".join(out)


def why_not(text):
    """Why this line needs no extraction: "empty", "command", "small talk", "question", "request".

    None if it may hold a fact.
    """
    text = text.strip()
    if not text:
        return "empty"
    if text[0] == "/":
        return "command"
    if " " + norm(text) + " " in _SMALL_TALK:
        return "small talk"
    rest = statements(text)
    if not rest:
        return "question"
    pieces = rest.split("\n")
    if all([" " + norm(p) + " " in _SMALL_TALK for p in pieces]):
        return "small talk" if len(rest) >= len(text) - 2 else "question"
    letters = 0
    for ch in rest:
        c = ord(ch)
        letters += 2 if is_cjk(c) else (97 <= c | 32 <= 122 or c > 0xBF)
    if letters < 4:
        return "small talk"
    if all([_is_request(p) for p in pieces]):
        return "request"
    return None


def _is_request(piece):
    if order_in(piece)[0] or _is_self(
        piece.replace("帮我", "").replace("给我", "").replace("告诉我", "")
    ):
        words = first_words(fold(piece))
        # "tell me a joke" speaks of nobody.
        return (
            words[1:2] == ["me"]
            and " " + words[0] + " " in " help " + _REQUEST
            and not _is_self(" ".join(piece.split()[2:]))
        )
    folded = fold(piece)
    for word in _REQUEST_CJK.split("|"):
        if folded.startswith(word):
            return True
    words = first_words(folded)
    if words and words[0] in ("please", "bitte", "now", "then", "пожалуйста"):
        words = words[1:]
    return len(words) > 1 and " " + words[0] + " " in _REQUEST


# Where a Chinese fact goes on after its subject.
_VERB_CJK = "是在有要喜爱不会住吃喝每对的叫"


def label_for(fact):
    """A label of at most 8 characters for a fact that came without one: its first telling word."""
    for start in ("我的", "我", "用户的", "用户"):
        if fact.startswith(start):
            fact = fact[len(start) :]
            break
    run = ""
    for ch in fact[:12]:
        if not is_cjk(ord(ch)) or (ch in _VERB_CJK and run):
            break
        run += ch
    if len(run) > 1:
        return run[:8]
    telling = terms(fact, 1)
    if telling:
        # The word as it stands, not its stem.
        for word in fact.split():
            word = word.strip(",.:;!?\"'()")
            if fold(word).startswith(telling[0]):
                return word[:8]
        return telling[0][:8]
    return fact[:8]
