"""Between the OpenAI form and Anthropic's messages API.

Owns: the request (tools, results, alternation, no blank blocks: B40, B41) and the reply's events
(B17). Must not touch: networking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from upyclaw_host.relay.dialect import (
    ARGUMENTS,
    REASONING,
    TEXT,
    Chunk,
    Delta,
    Usage,
    arguments_object,
    chunk_of,
    content_text,
    end_chunk,
)
from upyclaw_host.relay.errors import ProviderError, kind_of, refused_inside

NO_OUTPUT = "(no output)"  # stands for an empty tool result (B40)
NO_RESULT = "(no result was recorded)"

_STOP = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_ERROR_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_CHOICE = {"auto": "auto", "required": "any", "none": "none"}


def to_anthropic(request: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    """The messages-API body for an OpenAI-form request, without `model` and `stream`."""
    limit = request.get("max_completion_tokens") or request.get("max_tokens") or max_tokens
    body: dict[str, Any] = {"max_tokens": limit, "messages": _messages(request["messages"])}
    system = "\n\n".join(filter(None, map(_system_text, request["messages"])))
    if system:
        body["system"] = system
    if isinstance(request.get("temperature"), (int, float)):
        body["temperature"] = min(request["temperature"], 1)
    if isinstance(request.get("top_p"), (int, float)):
        body["top_p"] = request["top_p"]
    stop = request.get("stop")
    stops = [s for s in ([stop] if isinstance(stop, str) else stop or []) if s.strip()]
    if stops:
        body["stop_sequences"] = stops
    tools = [t for t in map(_tool, request.get("tools") or []) if t]
    if tools:
        body["tools"] = tools
        choice = _choice(request.get("tool_choice"))
        if choice:
            body["tool_choice"] = choice
    return body


def _system_text(message: dict[str, Any]) -> str:
    if message["role"] not in ("system", "developer"):
        return ""
    return content_text(message.get("content")).strip()


def _tool(tool: dict[str, Any]) -> dict[str, Any] | None:
    function = tool.get("function")
    if not isinstance(function, dict) or not function.get("name"):
        return None
    made = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    if function.get("description"):
        made["description"] = function["description"]
    return made


def _choice(choice: Any) -> dict[str, Any] | None:
    if isinstance(choice, dict):
        name = (choice.get("function") or {}).get("name")
        return {"type": "tool", "name": name} if name else None
    return {"type": _CHOICE[choice]} if choice in _CHOICE else None


def _messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that alternate, begin with the user and pair every call with one result."""
    made: list[dict[str, Any]] = []
    open_calls: list[str] = []  # ids of the last assistant message that wait for a result

    def add(role: str, blocks: list[dict[str, Any]]) -> None:
        if not blocks:
            return
        if made and made[-1]["role"] == role:
            made[-1]["content"] += blocks
        elif made or role == "user":
            made.append({"role": role, "content": blocks})

    def settle() -> None:
        """A call whose result is missing would make every later request fail."""
        add("user", [_result(call_id, NO_RESULT) for call_id in open_calls])
        open_calls.clear()

    for message in messages:
        role = message["role"]
        if role == "tool":
            call_id = _id(message.get("tool_call_id"))
            if call_id in open_calls:
                open_calls.remove(call_id)
                text = content_text(message.get("content"))
                add("user", [_result(call_id, text if text.strip() else NO_OUTPUT)])
        elif role == "user":
            settle()
            add("user", _text_blocks(message.get("content")))
        elif role == "assistant":
            settle()
            calls = _tool_uses(message.get("tool_calls"))
            add("assistant", _text_blocks(message.get("content")) + calls)
            if made:
                open_calls += [block["id"] for block in calls]
    settle()
    return made


def _text_blocks(content: Any) -> list[dict[str, Any]]:
    text = content_text(content).rstrip()
    return [{"type": "text", "text": text}] if text.strip() else []


def _tool_uses(calls: Any) -> list[dict[str, Any]]:
    made = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name"):
            made.append(
                {
                    "type": "tool_use",
                    "id": _id(call.get("id")),
                    "name": function["name"],
                    "input": arguments_object(function.get("arguments")),
                }
            )
    return made


def _id(value: Any) -> str:
    """An id in the letters the API takes; the same input gives the same output."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", str(value or "")) or "call"


def _result(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


class AnthropicReader:
    """Turns the events of one reply into OpenAI-form chunks. `ended` tells if the end came."""

    def __init__(self, url: str) -> None:
        self.ended = False
        self._url = url
        self._usage = Usage()
        self._calls = -1
        self._bare_call = False  # a tool_use block without arguments so far

    def feed(self, event: Any) -> list[Chunk]:
        """Chunks for one event or for one whole message. Raises ProviderError for an error."""
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "error":
            raise stream_error(event)
        if kind == "message":
            return list(self._whole(event))
        if kind == "message_start":
            self._count(event.get("message", {}).get("usage"))
        elif kind == "content_block_start":
            return self._start(event.get("content_block") or {})
        elif kind == "content_block_delta":
            return self._delta(event.get("delta") or {})
        elif kind == "content_block_stop":
            return self._stop_block()
        elif kind == "message_delta":
            self._count(event.get("usage"))
            reason = (event.get("delta") or {}).get("stop_reason")
            if reason:
                self.ended = True
                return [end_chunk(_STOP.get(reason, "stop"), self._usage)]
        elif kind not in ("message_stop", "ping") and kind is None:
            raise refused_inside(event, self._url) or ProviderError(
                0,
                f"{self._url} sent JSON that is no answer; check base_url.",
                "html",
            )
        return []

    def _whole(self, message: Chunk) -> Iterator[Chunk]:
        self._count(message.get("usage"))
        for block in message.get("content") or []:
            yield from self._start(block)
            yield from self._stop_block()
        self.ended = True
        reason = _STOP.get(message.get("stop_reason") or "end_turn", "stop")
        yield end_chunk(reason, self._usage)

    def _start(self, block: dict[str, Any]) -> list[Chunk]:
        kind = block.get("type")
        if kind == "tool_use":
            self._calls += 1
            arguments = block.get("input")
            text = json.dumps(arguments, ensure_ascii=False) if arguments else ""
            self._bare_call = not text
            delta = Delta(ARGUMENTS, text, self._calls, block.get("id"), block.get("name"))
            return [chunk_of(delta)]
        if kind == "text" and block.get("text"):
            return [chunk_of(Delta(TEXT, block["text"]))]
        if kind == "thinking" and block.get("thinking"):
            return [chunk_of(Delta(REASONING, block["thinking"]))]
        return []

    def _delta(self, delta: dict[str, Any]) -> list[Chunk]:
        if delta.get("type") == "text_delta" and delta.get("text"):
            return [chunk_of(Delta(TEXT, delta["text"]))]
        if delta.get("type") == "thinking_delta" and delta.get("thinking"):
            return [chunk_of(Delta(REASONING, delta["thinking"]))]
        if delta.get("type") == "input_json_delta" and delta.get("partial_json"):
            self._bare_call = False
            return [chunk_of(Delta(ARGUMENTS, delta["partial_json"], self._calls))]
        return []

    def _stop_block(self) -> list[Chunk]:
        bare, self._bare_call = self._bare_call, False
        return [chunk_of(Delta(ARGUMENTS, "{}", self._calls))] if bare else []

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        read = sum(
            usage.get(name) or 0
            for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        )
        self._usage.prompt = read or self._usage.prompt
        self._usage.completion = usage.get("output_tokens") or self._usage.completion


def stream_error(event: dict[str, Any]) -> ProviderError:
    """The error for an `error` event or body."""
    error = event.get("error")
    error = error if isinstance(error, dict) else {}
    status = _ERROR_STATUS.get(str(error.get("type")), 500)
    said = str(error.get("message") or error.get("type") or "no reason given")
    kind = kind_of(status, said)
    return ProviderError(status, f"The provider refused: {said}", kind, None, json.dumps(event))
