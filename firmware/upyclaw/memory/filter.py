"""What a user's line is, told without a model: small talk, a question, a request to the assistant.

Owns: the word lists for it (docs/memory.md, "Filter"). Must not know the store.
"""

from .asks import is_self, statements
from .cuts import points
from .norm import norm
from .spot import first_words, order_in
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

# First words of a request to the assistant.
_REQUEST = (
    " write translate summarize summarise explain show tell give list play open close turn set"
    " start"
    " search find calculate compute convert draw make create generate read repeat say sing draft"
    " rewrite fix check help describe compare recommend suggest count print run count define spell"
    " schreibe schreib übersetze erkläre zeig zeige sag nenne mach öffne écris traduis explique"
    " escribe traduce explica dime напиши переведи объясни покажи расскажи скажи "
)
# Orders how the assistant shall speak or behave begin so, behind a please.
_MANNER = (
    "always answer|always reply|always respond|always speak|never answer|never reply"
    "|answer in |answer me in |reply in |reply to me in |respond in |speak like |talk like "
    "|act like |pretend |be more |be less |stop being |antworte |sprich "
    "|以后请用|以后请你用|以後請用|以后你用|以后都用|请用|請用|请你用|请始终|假装你|扮演"
)
_TO_ME_CJK = "回答我|回复我|跟我|和我|对我|给我"
_REQUEST_CJK = (
    "请|請|帮我|幫我|给我|給我|翻译|翻譯|写一|寫一|打开|打開|关闭|關閉|播放|告诉我|告訴我|"
    "解释|解釋|总结|總結|讲一个|说一下|介绍|推荐|计算|查一下|搜索"
)


def why_not(text):
    """Why this line needs no extraction: "empty", "command", "small talk", "question", "request".

    None if it may hold a fact.
    """
    text = text.strip()
    if not text:
        return "empty"
    if text.startswith("/"):
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
    for c in points(rest.encode()):
        letters += 2 if is_cjk(c) else (97 <= c | 32 <= 122 or c > 0xBF)
    if letters < 4 and not _tells_number(rest):
        return "small talk"
    if all([_is_request(p) for p in pieces]):
        return "request"
    return None


def _tells_number(text):
    """True for `I'm 36`, which has few letters but tells something."""
    for c in text.encode():
        if 48 <= c <= 57:
            return is_self(text)
    return False


def _is_manner(piece):
    """True for an order how the assistant shall speak or behave that tells nothing else: `Always
    answer me in rhymes`, but not `Answer in German, I am from Munich`."""
    folded = fold(piece)
    for word in ("please ", "from now on", "bitte ", "ab jetzt "):
        if folded.startswith(word):
            folded = folded[len(word) :].lstrip(" ,")
    for word in _MANNER.split("|"):
        if folded.startswith(word):
            for me in _TO_ME_CJK.split("|"):
                folded = folded.replace(me, "")
            return not is_self(" ".join([w for w in folded.split() if w not in ("me", "mir")]))
    return False


def _is_request(piece):
    if _is_manner(piece):
        return True
    if order_in(piece)[0] or is_self(
        piece.replace("帮我", "").replace("给我", "").replace("告诉我", "")
    ):
        words = first_words(fold(piece))
        # "tell me a joke" speaks of nobody.
        return (
            words[1:2] == ["me"]
            and " " + words[0] + " " in " help " + _REQUEST
            and not is_self(" ".join(piece.split()[2:]))
        )
    folded = fold(piece)
    for word in _REQUEST_CJK.split("|"):
        if folded.startswith(word):
            return True
    words = first_words(folded)
    if words and words[0] in ("please", "bitte", "now", "then", "пожалуйста"):
        words = words[1:]
    return len(words) > 1 and " " + words[0] + " " in _REQUEST
