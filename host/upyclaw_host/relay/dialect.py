"""The one dialect between board and relay: OpenAI chat completions, streamed.

Owns: checking the board's request, reading chunks of any OpenAI-like server into plain events
(B06, B12, B14, B43), turning a whole completion into chunks. Must not touch: networking, pacing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from upyclaw_host.relay.errors import ProviderError, refused_inside

Chunk = dict[str, Any]

TEXT = "content"
REASONING = "reasoning_content"
ARGUMENTS = "arguments"


class Delta(NamedTuple):
    """A piece of the reply. `slot` (number of the call), `call_id`, `name`: tool calls only."""

    field: str  # TEXT, REASONING or ARGUMENTS
    text: str
    slot: int = 0
    call_id: str | None = None
    name: str | None = None


def parse_request(body: bytes) -> dict[str, Any]:
    """The board's request as a dict. Raises ProviderError (400, "request") when it is none."""
    try:
        request = json.loads(body.decode("utf-8", "replace"))
    except ValueError as error:
        raise ProviderError(
            400, f"The board's request is not JSON ({error}); update the firmware.", "request"
        ) from None
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list) or not messages:
        raise ProviderError(
            400, "The board's request holds no messages; update the firmware.", "request"
        )
    if not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
        raise ProviderError(
            400,
            "A message in the board's request has no role; run session verify.",
            "request",
        )
    return cast("dict[str, Any]", clean(request))


def clean(value: Any) -> Any:
    """The same JSON value with surrogate halves joined or replaced by U+FFFD."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def join_surrogates(text: str) -> str:
    """`text` with escaped pairs joined; a lone half becomes U+FFFD (B06)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def arguments_text(value: Any) -> str:
    """Tool arguments as the JSON string of the OpenAI form, from the forms servers use (B14)."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_object(value: Any) -> dict[str, Any]:
    """Tool arguments as an object; what cannot be read gives {} (B14, B17)."""
    for _ in range(2):  # some servers encode twice
        if isinstance(value, str):
            try:
                value = json.loads(value, strict=False) if value.strip() else {}
            except ValueError:
                return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else {}


def content_text(content: Any) -> str:
    """Text of a message's content: a string, null, or a list of parts (B12)."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            part if isinstance(part, str) else part.get("text") or ""
            for part in content
            if isinstance(part, str) or (isinstance(part, dict) and "text" in part)
        )
    return ""


@dataclass
class Usage:
    """Token counts of one reply, as far as the provider tells them."""

    prompt: int = 0
    completion: int = 0

    def as_dict(self) -> dict[str, int]:
        """The OpenAI form."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        }


class ChunkReader:
    """Reads the chunks of one reply; keeps what comes at its end (`finish`, `usage`)."""

    def __init__(self, url: str) -> None:
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.calls = 0  # tool calls seen
        self._url = url
        self._slots: dict[Any, int] = {}  # server's index -> ours
        self._ids: list[str] = []

    def feed(self, chunk: Any) -> list[Delta]:
        """The pieces in one chunk. Raises ProviderError for an error inside (B43)."""
        refused = refused_inside(chunk, self._url)
        if refused:
            raise refused
        if isinstance(chunk.get("usage"), dict):
            self._take_usage(chunk["usage"])
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            choice = choices[0]
        elif isinstance(chunk.get("message"), dict) and "choices" not in chunk:
            choice = self._ollama(chunk)
        else:
            return []
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish = reason
        message = choice.get("delta")
        if not isinstance(message, dict):
            message = choice.get("message")
        return self._message(message) if isinstance(message, dict) else []

    def _ollama(self, chunk: Chunk) -> Chunk:
        """A choice made from Ollama's own form, `{"message":{...},"done":true}`."""
        if not chunk.get("done"):
            return {"delta": chunk["message"]}
        self.usage = Usage(
            _number(chunk.get("prompt_eval_count")), _number(chunk.get("eval_count"))
        )
        return {"delta": chunk["message"], "finish_reason": chunk.get("done_reason") or "stop"}

    def _take_usage(self, usage: dict[str, Any]) -> None:
        self.usage = Usage(
            _number(usage.get("prompt_tokens")), _number(usage.get("completion_tokens"))
        )

    def _message(self, message: dict[str, Any]) -> list[Delta]:
        found: list[Delta] = []
        thought = message.get("reasoning_content")
        if not isinstance(thought, str):
            thought = message.get("reasoning") or message.get("thinking")
        if isinstance(thought, str) and thought:
            found.append(Delta(REASONING, thought))
        text = content_text(message.get("content")) or content_text(message.get("refusal"))
        if text:
            found.append(Delta(TEXT, text))
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            found += [self._call(c) for c in calls if isinstance(c, dict)]
        return found

    def _call(self, call: dict[str, Any]) -> Delta:
        function = call.get("function")
        if not isinstance(function, dict):
            function = {}
        name = function.get("name") or None
        call_id = call.get("id") or None
        text = arguments_text(function.get("arguments"))
        slot = self._slot(call.get("index"), call_id, name)
        if slot < self.calls:
            return Delta(ARGUMENTS, text, slot)
        self.calls += 1
        # Servers leave the id out (B14); the board needs one to pair call and result.
        call_id = str(call_id or f"call_{secrets.token_hex(6)}")
        self._ids.append(call_id)
        return Delta(ARGUMENTS, text, slot, call_id, name)

    def _slot(self, index: Any, call_id: Any, name: Any) -> int:
        """Our number for a call. A new id under an old index is a new call (some gateways)."""
        if index is None:
            if call_id in self._ids:
                return self._ids.index(call_id)
            return self.calls if name or not self.calls else self.calls - 1
        known = self._slots.get(index)
        if known is None or (call_id and name and call_id != self._ids[known]):
            self._slots[index] = known = self.calls
        return known


def _number(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def completion_chunks(completion: Any, url: str) -> Iterator[Chunk]:
    """A whole completion as a stream of small chunks (one word each).

    Raises ProviderError (B43) when it holds an error or no choice.
    """
    reader = ChunkReader(url)
    deltas = reader.feed(completion)
    if not deltas and reader.finish is None:
        raise empty_answer()
    for delta in deltas:
        if delta.field == ARGUMENTS:
            yield chunk_of(delta)
        else:
            for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", delta.text):
                yield chunk_of(delta._replace(text=word))
    yield end_chunk(reader.finish or "stop", reader.usage)


def chunk_of(delta: Delta) -> Chunk:
    """One streamed chunk, as small as the form allows: every byte crosses a slow line."""
    if delta.field != ARGUMENTS:
        return {"choices": [{"delta": {delta.field: delta.text}}]}
    call: dict[str, Any] = {"index": delta.slot}
    function: dict[str, Any] = {"arguments": delta.text}
    if delta.call_id:
        call.update(id=delta.call_id, type="function")
        function = {"name": delta.name or "", "arguments": delta.text}
    call["function"] = function
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


def end_chunk(reason: str, usage: Usage | None) -> Chunk:
    """The last chunk: why it ended, and the token counts when known."""
    chunk: Chunk = {"choices": [{"delta": {}, "finish_reason": reason}]}
    if usage is not None:
        chunk["usage"] = usage.as_dict()
    return chunk


def empty_answer(reason: str | None = None) -> ProviderError:
    """The error for an answer without text and without tool calls."""
    if reason == "content_filter":
        return ProviderError(
            0, "The provider's filter held the answer back; put it in other words.", "empty"
        )
    if reason == "length":
        return ProviderError(
            0, "The model gave an empty answer: its token limit was used up; raise it.", "empty"
        )
    return ProviderError(0, "The model gave an empty answer; ask again.", "empty")
