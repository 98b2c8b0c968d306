"""A session as Markdown, JSON lines, or plain OpenAI messages that any provider accepts.

Owns: the shape of exports. The OpenAI form is repaired (pairs whole, roles alternate, no empty
text, B01, B40, B41); the other two tell what the file holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from upyclaw_host.formats.messages import Message, ToolCall, messages_of, turns
from upyclaw_host.formats.records import Record
from upyclaw_host.formats.session import SessionPair

_NO_RESULT = "(no result was kept)"


def jsonl(pair: SessionPair) -> Iterator[str]:
    """One line a record: number, turn, kind and value (the cleaned text if it is no JSON)."""
    for turn in turns(pair.records):
        for record in turn.records:
            line: dict[str, Any] = {
                "record": record.number,
                "turn": turn.number,
                "type": record.rtype.name.lower(),
                "format": record.fmt.name.lower(),
                "offset": record.offset,
                "length": record.length,
                "origin": record.origin.value,
            }
            if record.ok:
                line["value"] = record.value
            else:
                line["damaged"] = messages_of(record)[0].text
            yield json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def _fence(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of back-ticks in the text."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def _markdown_message(message: Message, names: dict[str, str]) -> Iterator[str]:
    if message.role == "tool":
        failed = " (failed)" if message.is_error else ""
        yield f"*Result of {names.get(message.call_id, 'a tool')}{failed}*"
        yield _fence(message.text)
        return
    if message.role == "damaged":
        yield f"*Record {message.record} is damaged:*"
        yield _fence(message.text)
        return
    who = {"user": "User", "assistant": "Assistant"}.get(message.role, message.role)
    if message.text:
        yield f"**{who}**"
        yield message.text
    for call in message.calls:
        names[call.id] = call.name
        yield f"*{who} calls {call.name}*"
        yield _fence(call.arguments, "json")


def markdown(pair: SessionPair, title: str) -> str:
    """The conversation as Markdown, one heading a turn."""
    parts = [f"# {title}"]
    names: dict[str, str] = {}
    for turn in turns(pair.records):
        parts.append(f"## Turn {turn.number}" if turn.number else "## Before the first question")
        for message in turn.messages:
            parts.extend(_markdown_message(message, names))
        if turn.records[-1] is pair.records[-1] and pair.pending:
            parts.append("*(not answered yet)*")
    return "\n\n".join(parts) + "\n"


class _OpenAI:
    """Builds a message list that satisfies every provider."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._open: dict[str, str] = {}  # id in the file -> id in the export
        self._used: set[str] = set()

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._result(message)
        elif message.role in ("user", "assistant"):
            self._close()
            if message.role == "assistant" and message.calls:
                self._call(message)
            elif message.text.strip():
                self._text(message.role, message.text)

    def finish(self) -> list[dict[str, Any]]:
        self._close()
        return self.messages

    def _text(self, role: str, text: str) -> None:
        last = self.messages[-1] if self.messages else None
        if last is None and role != "user":
            return
        if last is not None and last["role"] == role and "tool_calls" not in last:
            last["content"] = f"{last['content']}\n\n{text}"
        else:
            self.messages.append({"role": role, "content": text})

    def _call(self, message: Message) -> None:
        if not self.messages:
            return  # cut off its question: no provider takes a history that begins so
        calls = [self._rename(call) for call in message.calls]
        content: str | None = message.text or None
        if self.messages[-1]["role"] == "assistant":
            before = self.messages.pop()["content"]
            content = f"{before}\n\n{content}" if content else before
        self.messages.append({"role": "assistant", "content": content, "tool_calls": calls})

    def _rename(self, call: ToolCall) -> dict[str, Any]:
        new, count = call.id or "call", 1
        while new in self._used:
            count += 1
            new = f"{call.id or 'call'}_{count}"
        self._used.add(new)
        self._open[call.id if call.id not in self._open else new] = new
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        return {"id": new, "type": "function", "function": function}

    def _result(self, message: Message) -> None:
        known = self._open.pop(message.call_id, None)
        if known is not None:
            text = message.text
            self.messages.append({"role": "tool", "tool_call_id": known, "content": text})

    def _close(self) -> None:
        for known in self._open.values():
            self.messages.append({"role": "tool", "tool_call_id": known, "content": _NO_RESULT})
        self._open.clear()


def openai(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Plain OpenAI chat messages: valid for any provider, whatever the file holds.

    Calls without a result get a stand-in, results without a call and damaged records are left
    out, neighbours of one role are joined. Empty if the session has no usable question.
    """
    builder = _OpenAI()
    for record in records:
        for message in messages_of(record):
            builder.add(message)
    return builder.finish()
