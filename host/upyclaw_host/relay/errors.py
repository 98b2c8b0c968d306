"""What can go wrong between the relay and a provider, in one short sentence each.

Owns: the error kinds, the wording, the cleaning of foreign text (no HTML, no key, at most 200
characters). Must not touch: networking. Sources: B10, B11, B43 and the kinds of docs/link.md.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

MESSAGE_LIMIT = 200  # characters a person sees (B43)

# kind -> may the same request work a little later without anybody doing anything?
KINDS: dict[str, bool] = {
    "auth": False,
    "rate": True,
    "server": True,
    "empty": False,
    "html": False,  # a page, or anything else that is no answer of this API
    "cut": False,
    "context": False,
    "timeout": False,
    "gone": True,
    "request": False,
}

_CONTEXT_WORDS = re.compile(
    r"context[ _]?(length|size|window)|maximum context|too many tokens|prompt is too long"
    r"|context too long|exceeds? the (available|maximum) context",
    re.I,
)
# Key shapes of the usual providers; a provider may quote a key back in its error text.
_KEY_SHAPE = re.compile(r"\b(?:(?:sk|pk|rk|gsk|xai|key)[-_]|AIza)[-_A-Za-z0-9*.…]{6,}")
_TAG = re.compile(r"<[^>]*>")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.I | re.S)
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


class ProviderError(Exception):
    """A request that the provider did not answer.

    `status`: the HTTP status the provider gave (also one inside a 200), 0 where there was none.
    `message`: one sentence, at most 200 characters, without HTML and without keys.
    `kind`: one of KINDS. `retry_after`: seconds the provider asked for, or None.
    `detail`: the provider's own text for the code that adapts to it; never shown.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str,
        retry_after: float | None = None,
        detail: str = "",
    ) -> None:
        assert kind in KINDS
        self.status = status
        self.message = sentence(message)
        self.kind = kind
        self.retry_after = retry_after
        self.detail = detail
        super().__init__(self.message)

    @property
    def passing(self) -> bool:
        """True when the same request may succeed after a pause."""
        return KINDS[self.kind]

    def without(self, secret: str) -> ProviderError:
        """The same error with a secret taken out of its message."""
        self.message = hide(self.message, secret)
        return self

    def body(self) -> bytes:
        """The JSON error body for the board."""
        error = {"message": self.message, "kind": self.kind}
        return json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":")).encode()


def sentence(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Text on one line with an end, keys hidden, bad code points replaced, cut at `limit`."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = _KEY_SHAPE.sub("***", _BLANK.sub(" ", text).strip())
    if text and text[-1] not in ".!?…。":
        text += "."
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def hide(text: str, *secrets: str | None) -> str:
    """`text` without any of the secrets (keys given in the settings)."""
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, "***")
    return text


def looks_like_html(text: str) -> bool:
    """True for a page instead of an API answer (captive portal, proxy error)."""
    return text.lstrip("\ufeff \t\r\n").startswith("<")


def first_line(text: str) -> str:
    """The first line of a foreign body in plain words: a page's title, else its first text."""
    if looks_like_html(text):
        title = _TITLE.search(text)
        text = html.unescape(_TAG.sub(" ", title.group(1) if title else text[:2000]))
        return _BLANK.sub(" ", text).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def error_text(body: Any) -> str:
    """The message inside a provider's JSON error body, whatever its shape ('' when none)."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return first_line(body)
    if not isinstance(body, dict):
        return ""
    for name in ("error", "message", "detail", "msg"):
        value = body.get(name)
        if isinstance(value, dict):
            inner = error_text(value) or str(value.get("code") or value.get("type") or "")
            if inner:
                return inner
        elif isinstance(value, str) and value.strip():
            return first_line(value)
        elif isinstance(value, list) and value:
            return first_line(json.dumps(value, ensure_ascii=False))
    return ""


def plain_url(url: str) -> str:
    """The URL without user, password, query and fragment, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def kind_of(status: int, text: str = "") -> str:
    """The error kind for an HTTP status and the provider's text."""
    if status in (401, 403):
        return "auth"
    if status == 429:
        return "rate"
    if status in (408, 504):
        return "timeout"
    if status in (400, 413, 422) and (status == 413 or _CONTEXT_WORDS.search(text)):
        return "context"
    return "server" if status >= 500 else "request"


def seconds(value: str | None) -> float | None:
    """Retry-After in seconds; the date form and nonsense give None. At most a day."""
    try:
        wait = float(value) if value is not None else -1.0
    except ValueError:
        return None
    return min(wait, 86400.0) if wait >= 0 else None


def http_error(
    status: int,
    text: str,
    *,
    url: str,
    model: str,
    key_setting: str,
    headers: Mapping[str, str] | None = None,
    secrets: tuple[str | None, ...] = (),
) -> ProviderError:
    """The error for an HTTP answer that is no success; `text` is its body."""
    detail = hide(text, *secrets)
    try:
        said = error_text(json.loads(detail))
    except ValueError:
        said = first_line(detail)
    kind = kind_of(status, detail)
    where = plain_url(url)
    wait = seconds((headers or {}).get("retry-after"))
    if kind == "auth":
        head = f"{where} refused the key (HTTP {status}); check {key_setting}"
    elif kind == "rate":
        pause = f", wait {wait:g} s" if wait is not None else ", wait a little"
        head = f"Too many requests at {where} (HTTP {status}){pause}"
    elif kind == "context":
        head = f"The request is too long for model {model} (HTTP {status}); start a /new session"
    elif status == 404:
        head = f"{where} knows no such model or path (HTTP 404); check model {model} and base_url"
    elif kind == "server":
        head = f"Server error {status} at {where}"
    else:
        head = f"{where} refused the request (HTTP {status})"
    return ProviderError(status, f"{head}: {said}" if said else f"{head}.", kind, wait, detail)


def refused_inside(body: Any, url: str) -> ProviderError | None:
    """The error for a success status with an error in its JSON (B43), or None."""
    if not isinstance(body, dict):
        return ProviderError(
            0, f"{plain_url(url)} sent JSON that is no chat answer; check base_url.", "html"
        )
    error = body.get("error")
    if not error and not (body.get("detail") and "choices" not in body):
        return None
    said = error_text(body) or "no reason given"
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    status = code if isinstance(code, int) and 400 <= code <= 599 else 0
    kind = kind_of(status or 400, json.dumps(body))
    return ProviderError(status, f"The provider refused: {said}", kind, None, json.dumps(body))


def not_json(text: str, url: str) -> ProviderError:
    """The error for a body that is neither JSON nor an event stream."""
    where = plain_url(url)
    if not text.strip():
        return ProviderError(0, f"{where} sent an empty answer; try again.", "empty")
    if looks_like_html(text):
        return ProviderError(
            0,
            f"{where} sent a web page, not JSON (a log-in page? a wrong base_url?): "
            f"{first_line(text)}",
            "html",
        )
    return ProviderError(
        0,
        f"{where} sent no JSON; check base_url: {first_line(text)}",
        "html",
    )


def cut_off() -> ProviderError:
    """The error for an answer that broke off."""
    return ProviderError(0, "The answer was cut off in the middle; ask again.", "cut")


def transport_error(error: BaseException, url: str, setting: str) -> ProviderError:
    """The error for a failure below HTTP: no route, DNS, refused, time-out, broken off."""
    where = plain_url(url)
    names = {type(e).__name__ for e in _chain(error)}
    texts = " ".join(str(e) for e in _chain(error))
    if any("Timeout" in name for name in names) and "ConnectTimeout" not in names:
        return ProviderError(0, f"{where} did not answer in time; try again.", "timeout")
    if names & {"RemoteProtocolError", "ReadError", "IncompleteRead"}:
        return cut_off()
    if re.search(r"name or service|nodename|getaddrinfo|resolution|resolve", texts, re.I):
        why = "its name cannot be resolved"
    elif re.search(r"refused|Errno 111|Errno 61", texts, re.I):
        why = "connection refused"
    elif re.search(r"certificate|SSL", texts):
        why = "its certificate is not accepted"
    else:
        why = "no connection"
    return ProviderError(0, f"{where}: {why}; start the server or check {setting}.", "gone")


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
