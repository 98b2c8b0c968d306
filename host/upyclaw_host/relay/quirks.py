"""How one OpenAI-like server wants its requests, learnt from its refusals.

Owns: the switches of B12 (`content` beside tool calls), B44 (`max_tokens` field, temperature) and
fields that a server does not know; what is learnt holds for the run and for every kind of request.
Must not touch: networking.
"""

from __future__ import annotations

import json
import re
from typing import Any

from upyclaw_host.relay.dialect import arguments_text
from upyclaw_host.relay.errors import ProviderError

MAX_TOKENS = ("max_tokens", "max_completion_tokens")

# Fields that may be left out without changing what the user asked for.
_OPTIONAL = ("temperature", "top_p", "stream_options", "reasoning_content", "parallel_tool_calls")
_REFUSED = re.compile(
    r"unsupported|not support|unrecognized|unknown|unexpected|not permitted|extra input"
    r"|only the default|deprecated|cannot be|not allowed|invalid",
    re.I,
)


class Quirks:
    """Changes a request into the form this server takes; `learn` changes the form after a 400."""

    def __init__(self, max_tokens_field: str = "max_tokens", empty_content: str = "null") -> None:
        self.max_tokens_field = max_tokens_field
        self.empty_content = empty_content
        self.dropped: set[str] = set()
        self._learnt: set[str] = set()

    def apply(self, request: dict[str, Any]) -> dict[str, Any]:
        """A new body; the request itself stays as it is."""
        body = {k: v for k, v in request.items() if k not in self.dropped and v is not None}
        limits = [body.pop(name) for name in MAX_TOKENS if name in body]
        if limits:
            body[self.max_tokens_field] = limits[0]
        body["messages"] = [self._message(m) for m in request["messages"]]
        return body

    def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        message = {k: v for k, v in message.items() if k not in self.dropped}
        calls = message.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return message
        message["tool_calls"] = [_call(c) for c in calls if isinstance(c, dict)]
        if message.get("content") in (None, "", []):
            message.pop("content", None)
            if self.empty_content != "omit":
                message["content"] = None if self.empty_content == "null" else ""
        return message

    def learn(self, error: ProviderError, body: dict[str, Any]) -> bool:
        """True when the refusal named something that can be changed, once each."""
        if error.status not in (400, 422) or error.kind == "context":
            return False
        param, text = _refusal(error.detail)
        if self._learn_max_tokens(param, text, body):
            return True
        for name in _OPTIONAL:
            named = param.endswith(name) or (re.search(rf"\b{name}\b", text) is not None)
            if named and _REFUSED.search(text) and _uses(body, name) and name not in self.dropped:
                self.dropped.add(name)
                return True
        return self._learn_content(text, body)

    def _learn_max_tokens(self, param: str, text: str, body: dict[str, Any]) -> bool:
        current = self.max_tokens_field
        other = MAX_TOKENS[1 - MAX_TOKENS.index(current)]
        if current not in body or "max_tokens" in self._learnt:
            return False
        if other in text or (param == current and _REFUSED.search(text)):
            self.max_tokens_field = other
            self._learnt.add("max_tokens")
            return True
        return False

    def _learn_content(self, text: str, body: dict[str, Any]) -> bool:
        bare = any(m.get("tool_calls") and not m.get("content") for m in body["messages"])
        if not bare or "content" in self._learnt or not re.search(r"\bcontent\b", text):
            return False
        self.empty_content = "empty" if self.empty_content == "null" else "null"
        self._learnt.add("content")
        return True


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call in the strict form: type present, arguments a string (B14)."""
    function = call.get("function")
    function = dict(function) if isinstance(function, dict) else {}
    function["arguments"] = arguments_text(function.get("arguments")) or "{}"
    return {**call, "type": "function", "function": function}


def _refusal(detail: str) -> tuple[str, str]:
    """(named parameter, whole text) of an error body."""
    try:
        body = json.loads(detail)
    except ValueError:
        return "", detail
    error = body.get("error") if isinstance(body, dict) else None
    param = error.get("param") if isinstance(error, dict) else None
    return (param if isinstance(param, str) else ""), detail


def _uses(body: dict[str, Any], name: str) -> bool:
    return name in body or any(name in m for m in body["messages"])
