"""Secrets and orders: what must not get into memory.

Owns: masking of value-shaped secrets (B30), and what counts as an order to the assistant
(SPEC-extract §2, B31). Must not know the store or a model.
"""

from .text import fold, strip

_MASK = "***"
# Beginnings of keys that services give out.
_KEYS = (
    "sk-|pk-|rk_live|sk_live|ghp_|gho_|github_pat_|glpat-|xoxb-|xoxp-|akia|aiza|eyj|hf_|gsk_|ya29."
)
# After one of these a value follows.
_NAMES = (
    "password|passwort|passcode|passphrase|passwd|pwd|kennwort|api key|api-key|apikey|secret key"
    "|access key"
    "|access token|token|pin code|pin|secret|mot de passe|contraseña|clave|пароль|密码|密碼|口令"
    "|パスワード"
    "|비밀번호|my key|the key"
)
_LINKS = (
    " is ",
    " is: ",
    " are ",
    ": ",
    ":",
    "=",
    " = ",
    "是",
    "为",
    "為",
    "：",
    " ist ",
    " est ",
    " es ",
    " - ",
    " — ",
    "は",
)


def _secret_token(token):
    """True if a blank-delimited token has the shape of a key."""
    low = token.lower()
    for start in _KEYS.split("|"):
        if low.startswith(start) and len(token) >= len(start) + 12:
            return True
    if len(token) < 20 or "://" in token or "/" in token or "@" in token or "." in token:
        return False
    digits = letters = 0
    for c in token.encode():
        if 48 <= c <= 57:
            digits += 1
        elif 97 <= c | 32 <= 122:
            letters += 1
        elif c not in b"-_+=":
            return False
    return digits >= 4 and letters >= 4


def _value_shaped(value, ends):
    """True if what follows "password is" is a value: digits, signs or odd capitals, or the end."""
    if len(value) < 3:
        return False
    plain = True
    for i, c in enumerate(value.encode()):
        if not (97 <= c <= 122 or (i == 0 and 65 <= c <= 90)) and c < 0x80:
            plain = False
    return not plain or ends


def _ends(rest):
    rest = rest.strip()
    return not rest or rest[:1] in ".,;!?。，；！？\"'"


def mask(text, secrets=()):
    """`text` with secrets as `***`: the given ones, keys by their shape, values after "password
    is".

    "The door has a password lock" stays as it is.
    """
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, _MASK)
    out = []
    for token in text.split(" "):
        bare = strip(token)
        if bare and _secret_token(bare):
            token = token.replace(bare, _MASK)
        out.append(token)
    return _mask_named(" ".join(out))


def _value_at(low, end):
    """Where the value of the name that ends at `end` begins, -1 if none follows."""
    a = -1
    for link in _LINKS:
        if low.startswith(link, end):
            a = max(a, end + len(link))
    if a < 0 and low.startswith((" of ", " for ", " to "), end):
        # "the password of the shed is ..."
        for link in (" is ", ": ", " = "):
            at = low.find(link, end, end + 40)
            if at >= 0:
                a = at + len(link)
                break
    return a


def _mask_named(text):
    low = fold(text)
    if len(low) != len(text):
        # ß became two letters: positions differ, compare as it stands.
        low = text
    for name in _NAMES.split("|"):
        at = low.find(name)
        while at >= 0:
            end = at + len(name)
            before = low[at - 1 : at] if at else " "
            a = _value_at(low, end) if not "a" <= before <= "z" else -1
            if a >= 0:
                b = a
                while b < len(text) and text[b : b + 1] not in ' ,;。，；、"':
                    b += 1
                value = text[a:b].rstrip(".!?")
                b = a + len(value)
                if value != _MASK and _value_shaped(value, _ends(text[b:])):
                    text = text[:a] + _MASK + text[b:]
                    low = low[:a] + _MASK + low[b:]
            at = low.find(name, end)
    return text


# Beginnings of a text that tells the assistant what to be or do.
_ORDERS = (
    "the assistant |assistant |the bot |the ai |ai |you are |you're |you should |you must "
    "|you will |you have to "
    "|your name |your role |your tone |act as |act like |pretend |behave |always answer"
    "|always reply|always respond"
    "|always speak|always call|never answer|never reply|never say|answer in |reply in "
    "|respond in |speak like "
    "|talk like |from now on |ignore |disregard |system: |system prompt|you shall |be more "
    "|be less |stop being "
    "|send all |send every |助手|你是|你要|你应该|你必须|你叫|您是|机器人|从现在开始|从现在起"
    "|假装|扮演|始终用|总是用|忽略|给我推荐|帮我|请给我"
    "|du bist |du sollst |tu es |tu dois |eres |ты |アシスタント|あなたは"
)
_ORDER_INSIDE = (
    "the assistant should|the assistant must|assistant to |the assistant's|wants the assistant"
    "|wants the ai|wants you to"
    "|wants the bot|previous instructions|system prompt|希望助手|要求助手|让助手|希望你|要求你"
    "|wants to be answered|文回答|语回答|文回复|语回复|的回答|的回复"
)


def is_order(text):
    """True if `text` says what the assistant shall be or do: that belongs to the profile."""
    folded = fold(text).replace("’", "'").strip()
    for start in _ORDERS.split("|"):
        if folded.startswith(start):
            return True
    for inside in _ORDER_INSIDE.split("|"):
        if inside in folded:
            return True
    # Told as if it were a fact: "User prefers short answers".
    if " wants " in folded or " prefers " in folded:
        return " answers" in folded or " replies" in folded or " responses" in folded
    return False
