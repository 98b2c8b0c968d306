"""What can go wrong with a model, as one exception with one sentence for the user.

Owns the kinds of failure. How a server's words become one of them: failures.py. Must not do I/O.
"""

MESSAGE_LIMIT = 200  # characters of a message, B43

KINDS = (
    "auth",  # the key or the right is missing: 401, 403
    "rate",  # too many requests, quota: 429
    "server",  # the server's own fault: 5xx, or it talks nonsense
    "empty",  # an answer without a word and without a tool call
    "html",  # a web page in place of an answer: wrong address, log-in page of a Wi-Fi
    "cut",  # the stream ended before the answer did
    "context",  # the request is longer than the model's context
    "timeout",  # nothing came in time
    "gone",  # no such model or address, or the model is not there any more
    "request",  # the server refuses this request: other 4xx
)
_RETRY = ("rate", "server", "timeout", "cut")


class LLMError(Exception):
    """A model request failed.

    `kind` is one of KINDS, `message` one sentence of at most 200 characters without markup,
    `status` the HTTP status or 0, `retry_after` seconds to wait or None.
    """

    def __init__(self, kind, message, status=0, retry_after=None):
        super().__init__(message)
        self.kind = kind if kind in KINDS else "server"
        self.message = one_line(message)
        self.status = status
        self.retry_after = retry_after

    @property
    def may_retry(self):
        """True if the same request can succeed a little later."""
        return self.kind in _RETRY

    def __str__(self):
        return self.message


def one_line(text):
    """`text` in one line of at most 200 characters, runs of white space as one blank."""
    text = " ".join(text[: 4 * MESSAGE_LIMIT].split())
    if len(text) > MESSAGE_LIMIT:
        text = text[: MESSAGE_LIMIT - 1] + "\u2026"
    return text
