"""What a failed HTTP request means: whether another try may help, and the words for the user.

Imported when a request failed, not before. Owns the wording for connection faults, the pauses,
what is learnt from a refusal (B44). Every text is freed of the key (B30) and names the URL (B10).
"""

from upyclaw.llm.errors import MESSAGE_LIMIT, LLMError, one_line

_TRIES = 3

_REFUSED = (111, 104, 113, 101, 103, 118, 128, 61, 32)


def pause(error, settings, where, tries, longest):
    """Milliseconds to wait before the next try, or the LLMError for the user is raised.

    `where`: (tls, host, port, path). `tries`: so far. `longest`: pause in s; a server that wants
    more is told to the user. May change `settings` (section model) for the run.
    """
    if not isinstance(error, LLMError):
        code = error.args[0] if isinstance(error, OSError) and error.args else 0
        if code in _REFUSED and tries == 1:
            # Perhaps the server has another address by now, or was just starting.
            return 1000
        error = _connection(error, where, settings)
    if tries < _TRIES and getattr(error, "fresh", False):
        if error.status == 400 and _learn(error.message, settings):
            return 0
        wait = error.retry_after
        if wait is None:
            wait = 1 << tries
        if error.may_retry and wait <= longest:
            return 1000 * wait
    raise _for_user(error, settings, where)


def _connection(error, where, settings):
    """LLMError for an OSError or the ValueError of mbedTLS."""
    tls, host, port, _ = where
    if isinstance(error, ValueError):
        text = one_line(str(error)).rstrip(".")
        return LLMError(
            "gone",
            "No safe connection to {}: {} (roots: model.ca, {}).".format(
                host, text, settings["ca"]
            ),
        )
    code = error.args[0] if error.args else 0
    if code == 125:
        return LLMError("timeout", "The request gave way to the chat.")
    if code == 110 or code == 116:
        return LLMError("timeout", "The model server did not answer in time.")
    if code == -2 or code == -202:
        reason = "the network knows no such name"
    elif code in _REFUSED:
        reason = "the connection was refused or broke off"
    else:
        reason = "error {}".format(code)
    return LLMError(
        "gone",
        "No talk with the model server {}, port {}: {}.".format(host, port, reason),
    )


def _learn(message, settings):
    """Change the settings for the rest of the run if the server named what it does not take."""
    low = message.lower()
    if "upport" not in low and "not allowed" not in low and "nrecognized" not in low:
        return False
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
    field = settings["max_tokens_field"]
    if "'" + field + "'" in low and not settings.get("swapped"):
        settings["max_tokens_field"] = other[field]
        settings["swapped"] = True
        return True
    if "temperature" in low and not settings.get("no_temperature"):
        settings["no_temperature"] = True
        return True
    return False


def _for_user(error, settings, where):
    tls, host, port, path = where
    text = error.message
    key = settings["api_key"]
    if key:
        # Some servers repeat the key they refuse, some all but its middle.
        text = text.replace(key, "(key)")
        if len(key) >= 8:
            text = " ".join(
                ["(key)" if key[:6] in w or key[-6:] in w else w for w in text.split(" ")]
            )
    url = "http{}://{}:{}{}".format("s" if tls else "", host, port, path)
    if error.kind in ("gone", "html", "auth", "request", "server", "empty", "timeout"):
        room = MESSAGE_LIMIT - len(url) - 3
        if room > 60:
            text = text if len(text) <= room else text[: room - 1] + "\u2026"
            text += " [" + url + "]"
    return LLMError(error.kind, text, error.status, error.retry_after)
