"""What a server says when it fails, made into an LLMError: status codes, error bodies, web pages.

Owns the wording and the shapes of error bodies in use among OpenAI-compatible servers (B11, B43).
Imported when something fails, not before: it is memory that a talk without faults does not need.
"""

from upyclaw.compat import json_loads, utf8_clean, utf8_cut
from upyclaw.llm.errors import KINDS, MESSAGE_LIMIT, LLMError, one_line

_CONTEXT_WORDS = (
    "context_length",
    "context length",
    "maximum context",
    "context size",
    "context window",
    "context too long",
    "prompt is too long",
    "too many tokens",
)

_HINTS = {
    "auth": "The model server refused the key",
    "rate": "The model server asks for a pause",
    "server": "The model server failed",
    "context": "The talk is too long for the model",
    "timeout": "The model server took too long",
    "gone": "The model or its address was not found",
    "request": "The model server refused the request",
    "html": "The address sent a web page, not an answer; check base URL and log-in",
}


def kind_of(status, text):
    """The kind of a failure from its HTTP status (0: unknown) and the server's words."""
    low = text.lower()
    if status in (0, 400, 413, 422, 500):
        for words in _CONTEXT_WORDS:
            if words in low:
                return "context"
    if status in (401, 403):
        return "auth"
    if status == 429:
        return "rate"
    if status in (408, 504, 524):
        return "timeout"
    if status in (404, 410):
        return "gone"
    if 400 <= status < 500:
        return "request"
    if status == 0 and (
        "rate limit" in low or "rate_limit" in low or "429" in low or "quota" in low
    ):
        return "rate"
    return "server"


def is_html(data):
    """True if the bytes begin like a web page."""
    return bytes(data[:64]).lstrip()[:1] == b"<"


def html_title(data):
    """Title of a web page as text, "" if it has none within `data`."""
    text = utf8_clean(data)
    low = text.lower()
    start = low.find("<title")
    start = low.find(">", start) if start >= 0 else -1
    end = low.find("<", start) if start >= 0 else -1
    return one_line(text[start + 1 : end]) if end > 0 else ""


def html_error(data, status=0, retry_after=None):
    """LLMError for a web page that came in place of an answer."""
    kind = kind_of(status, "") if status >= 400 else "html"
    text = _HINTS[kind]
    if status:
        text += " ({})".format(status)
    title = html_title(data)
    if title:
        text += ': page "' + title[:80] + '"'
    return LLMError(kind, text + ".", status, retry_after)


def error_text(value):
    """(message, code, kind, label) out of an error object; "", 0 where it has none.

    `label` is a code in words ("context_length_exceeded"). Shapes: `{"error":{"message","code"}}`,
    `{"error":"text"}`, `{"detail":"text"}`, `{"message":"text"}`, a list with one of these.
    """
    if isinstance(value, list):
        value = value[0] if value else None
    code = 0
    kind = label = ""
    for _ in range(4):
        if isinstance(value, str):
            return value, code, kind, label
        if isinstance(value, list):
            value = value[0] if value else None
        if not isinstance(value, dict):
            break
        for name in ("code", "status", "status_code"):
            number = value.get(name)
            if isinstance(number, int) and 400 <= number < 600:
                code = number
            elif isinstance(number, str):
                label = number
        if value.get("kind") in KINDS:
            kind = value["kind"]
        for name in ("error", "message", "detail", "msg", "errors"):
            if value.get(name):
                value = value[name]
                break
        else:
            break
    return "", code, kind, label


def error_of(value, status=0, retry_after=None):
    """LLMError for a parsed error body `value` (any JSON value)."""
    text, code, kind, label = error_text(value)
    status = status if status >= 400 else code
    named = bool(kind)
    if not kind:
        kind = kind_of(status, text + " " + label)
    if not text:
        text = _HINTS.get(kind, "The model server failed")
    elif not named:
        # The relay (which names the kind) writes whole sentences; a bare server does not.
        text = _HINTS[kind] + ": " + text
    text = one_line(text)
    if text[-1:] not in ".!?\u2026\u3002":
        text += "."
    if status and str(status) not in text:
        text = one_line(text)[: MESSAGE_LIMIT - 8]
        text = text.rstrip(".") + " ({}).".format(status)
    return LLMError(kind, text, status, retry_after)


def http_error(status, body=b"", retry_after=None):
    """LLMError for an HTTP reply with an error `status`; `body` is its beginning (bytes-like)."""
    data = bytes(body)
    if is_html(data):
        return html_error(data, status, retry_after)
    try:
        value = json_loads(utf8_clean(data))
    except ValueError:
        value = utf8_clean(data[: utf8_cut(data, 4 * MESSAGE_LIMIT)]).strip()
    return error_of(value, status, retry_after)
