"""Records as a conversation: readable messages, turns, and the reference's own reading.

Owns: what a record says to a person, whatever dialect it is in (OpenAI, Anthropic blocks, arrays
of tool results). Never raises on any JSON value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from upyclaw_host.formats.index import Backend, RecordType
from upyclaw_host.formats.jsontext import clean_text
from upyclaw_host.formats.records import Record

_TEXT_BLOCKS = {None, "text", "output_text", "message"}


@dataclass(frozen=True)
class ToolCall:
    """A call the model made; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """One message to read. `role` is user, assistant, tool, or damaged (no JSON)."""

    record: int
    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    is_error: bool = False
    reasoning: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; empty fields are left out."""
        told: dict[str, Any] = {"record": self.record, "role": self.role, "text": self.text}
        if self.calls:
            told["calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in self.calls
            ]
        if self.role == "tool":
            told["call_id"] = self.call_id
            told["is_error"] = self.is_error
        if self.reasoning:
            told["reasoning"] = self.reasoning
        return told


@dataclass(frozen=True)
class Turn:
    """A question and all that followed it. Records before the first question form turn 0."""

    number: int
    records: tuple[Record, ...]

    @property
    def completed(self) -> bool:
        """True if the turn has a final answer."""
        return any(record.rtype is RecordType.FINAL for record in self.records)

    @property
    def messages(self) -> list[Message]:
        """All messages of the turn in order."""
        return [message for record in self.records for message in messages_of(record)]


def dump(value: Any) -> str:
    """Compact JSON as the firmware writes it: UTF-8 raw, no blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_of(content: Any, between: str = "\n", depth: int = 8) -> str:
    """All visible text of a `content` value, parts joined by `between`; `depth` levels down."""
    if not depth:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        kind = content.get("type")
        if kind is not None and not (isinstance(kind, str) and kind in _TEXT_BLOCKS):
            return ""
        return text_of(content.get("text", content.get("content")), between, depth - 1)
    if isinstance(content, list):
        return between.join(filter(None, [text_of(part, between, depth - 1) for part in content]))
    return ""


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else dump(value)


def _openai_calls(message: dict[str, Any]) -> Iterable[ToolCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            function = call.get("function")
            named = function if isinstance(function, dict) else call
            arguments = _string(named.get("arguments"))
            yield ToolCall(_string(call.get("id")), _string(named.get("name")), arguments)


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == kind]


def _calls(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    used = (
        ToolCall(_string(b.get("id")), _string(b.get("name")), dump(b.get("input", {})))
        for b in _blocks(message, "tool_use")
    )
    return (*_openai_calls(message), *used)


def _reasoning(message: dict[str, Any]) -> str:
    told = message.get("reasoning_content", message.get("reasoning"))
    parts = [_string(block.get("thinking")) for block in _blocks(message, "thinking")]
    return "\n".join(filter(None, [told if isinstance(told, str) else "", *parts]))


def _one(value: Any, record: Record) -> list[Message]:
    """Messages of one JSON object."""
    number = record.number
    if not isinstance(value, dict):
        return [Message(number, "damaged", _string(value))]
    role = value.get("role")
    results = [
        Message(
            number,
            "tool",
            text_of(block.get("content")),
            call_id=_string(block.get("tool_use_id")),
            is_error=bool(block.get("is_error")),
        )
        for block in _blocks(value, "tool_result")
    ]
    text = text_of(value.get("content"), "" if role == "assistant" else "\n")
    if role == "tool":
        call, failed = _string(value.get("tool_call_id")), bool(value.get("is_error"))
        return [Message(number, "tool", text, call_id=call, is_error=failed)]
    if results and not text:
        return results
    if not isinstance(role, str):
        return [Message(number, "damaged", text or dump(value))]
    return [*results, Message(number, role, text, _calls(value), reasoning=_reasoning(value))]


def messages_of(record: Record) -> list[Message]:
    """Readable messages of a record; one that is no JSON becomes one message of role `damaged`."""
    if not record.ok:
        return [Message(record.number, "damaged", clean_text(record.raw))]
    if isinstance(record.value, list):
        return [message for part in record.value for message in _one(part, record)]
    return _one(record.value, record)


def turns(records: Sequence[Record]) -> list[Turn]:
    """Records by turns: each USER record begins one (SPEC-session §9)."""
    found: list[Turn] = []
    current: list[Record] = []
    for record in records:
        if record.rtype is RecordType.USER and current:
            found.append(Turn(0, tuple(current)))
            current = []
        current.append(record)
    if current:
        found.append(Turn(0, tuple(current)))
    first = 1 if found and found[0].records[0].rtype is RecordType.USER else 0
    return [Turn(number, turn.records) for number, turn in enumerate(found, first)]


def _degrade(value: Any) -> Any | None:
    """A final of another dialect as plain text, None if it has none (SPEC-session §8)."""
    content = value.get("content") if isinstance(value, dict) else None
    if isinstance(content, str):
        return value
    texts = [
        block["text"]
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]
    return {"role": "assistant", "content": "".join(texts)} if texts else None


def history(records: Iterable[Record], backend: Backend = Backend.UNKNOWN) -> list[Any]:
    """The messages the reference's `load` returns for a backend (SPEC-session §8).

    Result arrays are flattened; records of another dialect are left out or become plain text;
    records that are no JSON are left out (the reference would drop the whole session).
    """
    told: list[Any] = []
    for record in records:
        if not record.ok:
            continue
        foreign = bool(backend and record.fmt and backend != record.fmt)
        value = record.value
        if foreign and record.rtype in (RecordType.TOOL, RecordType.RESULT):
            continue
        if foreign and record.rtype is RecordType.FINAL:
            value = _degrade(value)
            if value is None:
                continue
        if record.rtype is RecordType.RESULT and isinstance(value, list):
            told.extend(value)
        else:
            told.append(value)
    return told
