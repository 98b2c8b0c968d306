"""One endpoint from any spelling of a base URL (B10)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from upyclaw_host.errors import UserError

OPENAI = "openai"
ANTHROPIC = "anthropic"

# What people paste behind the base; taken off before the endpoint is put on.
_TAILS = {
    OPENAI: ("/chat/completions", "/completions", "/chat", "/models"),
    ANTHROPIC: ("/messages", "/models"),
}
_ENDPOINT = {OPENAI: "/chat/completions", ANTHROPIC: "/messages"}
_VERSION = re.compile(r"^v\d+[a-z0-9]*$")


def chat_completions_url(base_url: str, backend: str, setting: str = "base_url") -> str:
    """The URL that takes chat requests.

    `backend` is `openai` or `anthropic` (the `..._compatible` names of the device's config too).
    A missing scheme or host raises UserError that names `setting`; `/v1` is added when the path
    has no version part.
    """
    backend = backend.removesuffix("_compatible")
    text = base_url.strip()
    if not text:
        raise UserError(
            f"{setting} is empty: write the server's address, for example http://localhost:11434."
        )
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        text = text.rpartition("@")[2]  # never a password in a message
        raise UserError(
            f'{setting} "{text}" does not begin with http:// or https:// and a host: '
            f"write for example https://{text.split('://')[-1].lstrip('/') or 'api.openai.com'}."
        )
    try:
        _ = parts.port
    except ValueError:
        raise UserError(f'{setting} "{text}" has a port that is not a number; mend it.') from None
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    for tail in _TAILS[backend]:
        if path.endswith(tail):
            path = path[: -len(tail)]
            break
    if not any(_VERSION.match(part) for part in path.split("/")):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path + _ENDPOINT[backend], "", ""))


def sdk_base(url: str, backend: str) -> str:
    """The base URL that the official SDK wants for an endpoint made by `chat_completions_url`."""
    tail = _ENDPOINT[backend] if backend == OPENAI else "/v1" + _ENDPOINT[backend]
    return url.removesuffix(tail)
