"""Tool calls that a model writes as text: small local models do it, whatever server runs them.

Owns: the rule. A reply is taken as tool calls if it is nothing but calls in JSON, each naming a
tool that the request offered. Around them may be a code fence or the tags models are trained with.
Everything else stays text. Must not touch: real tool calls, pacing, how calls are run.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

from upyclaw_host.relay.dialect import ARGUMENTS, TEXT, Delta, arguments_text

HELD = 8192  # characters; a longer reply is no call
CALLS = 8

_NAMES = ("name", "tool", "tool_name", "function")
_INPUTS = ("arguments", "parameters", "args", "input", "tool_input")
# What stands around the JSON: fences, the tags of Qwen, Hermes, Mistral and Llama.
_MARK = (
    r"(?:```[ \t]*(?:json|tool_call|tool_code|tool)?(?![\w+#-])"
    r"|</?tool_calls?>|\[TOOL_CALLS\]|<\|python_tag\|>)"
)
_AROUND = re.compile(rf"(?:\s|{_MARK}|[,;])+")
_BEFORE = re.compile(rf"(?:\s|{_MARK})*")
# Of these a beginning may stand alone while the reply comes.
_BEGINNINGS = (
    "```json",
    "```tool_call",
    "```tool_code",
    "<tool_calls>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
)
_KEYS = (*_NAMES, *_INPUTS, "type", "id", "tool_calls")
_FIRST_KEY = re.compile(r'\[?\s*\{\{?\s*"([^"]*)("?)')


class TextCalls:
    """Holds back text while it may still turn out to be tool calls. One for each reply."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._offered = _offered(request)
        self._held = ""
        self._open = bool(self._offered)  # the reply may still be a call
        self.found = False

    def take(self, deltas: list[Delta]) -> list[Delta]:
        """The deltas to pass on; text that may be a call waits for `end`."""
        if not self._open:
            return deltas
        out: list[Delta] = []
        for delta in deltas:
            if self._open and delta.field == TEXT:
                self._held += delta.text
                if not _may_be_call(self._held):
                    out += self._let_go()
            else:
                if delta.field == ARGUMENTS:
                    out += self._let_go()
                out.append(delta)
        return out

    def end(self) -> list[Delta]:
        """The reply is whole: the calls in the held text, or the text itself."""
        calls = _calls(self._held, self._offered) if self._open else []
        if not calls:
            return self._let_go()
        self._open, self.found = False, True
        return [
            Delta(ARGUMENTS, arguments, slot, f"call_{secrets.token_hex(6)}", name)
            for slot, (name, arguments) in enumerate(calls)
        ]

    def _let_go(self) -> list[Delta]:
        text, self._held, self._open = self._held, "", False
        return [Delta(TEXT, text)] if text else []


def _offered(request: dict[str, Any]) -> set[str]:
    names = set()
    for tool in request.get("tools") or []:
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            names.add(name)
    return names


def _may_be_call(text: str) -> bool:
    """Whether the beginning of a reply may still become a call: a mark, or its first key."""
    if len(text) > HELD:
        return False
    match = _BEFORE.match(text)
    rest = text[match.end() :] if match else text
    if not rest or any(mark.startswith(rest) for mark in _BEGINNINGS):
        return True
    if rest[0] not in "{[":
        return False
    key = _FIRST_KEY.match(rest)
    if key is None:
        return re.fullmatch(r'\[?\s*\{{0,2}\s*"?', rest) is not None
    return any(k == key[1] if key[2] else k.startswith(key[1]) for k in _KEYS)


def _calls(text: str, offered: set[str]) -> list[tuple[str, str]]:
    """(name, arguments as JSON text) of each call; [] unless the text is nothing but calls."""
    decoder = json.JSONDecoder(strict=False)
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        around = _AROUND.match(text, at)
        at = around.end() if around else at
        if at == len(text):
            return found if len(found) <= CALLS else []
        # `{{...}}`: some chat templates show the form so, by mistake.
        doubled = text.startswith("{{", at)
        try:
            value, at = decoder.raw_decode(text, at + doubled)
        except (ValueError, RecursionError):
            return []
        if doubled:
            if not text.startswith("}", at):
                return []
            while text.startswith("}", at):
                at += 1
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        for entry in value if isinstance(value, list) else [value]:
            call = _call(entry, offered)
            if call is None:
                return []
            found.append(call)


def _call(value: Any, offered: set[str]) -> tuple[str, str] | None:
    """One call in the form of OpenAI, Qwen, Hermes, Llama, Mistral; None if it is none."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if name not in offered:
        return None
    given = next((value[key] for key in _INPUTS if key in value), None)
    if not isinstance(given, (dict, str, type(None))):
        return None
    return name, arguments_text(given) or "{}"
