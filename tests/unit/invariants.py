"""The rules every chat request must keep (B01, B05, B12, B40, B41), as strict servers do."""

from __future__ import annotations

import json
from typing import Any


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def broken_rules(request: dict[str, Any]) -> list[str]:
    """Names of the rules that `request` breaks."""
    bad = []
    messages = request["messages"]
    roles = [m["role"] for m in messages]
    if "system" in roles[1:]:
        bad.append("a system message that is not the first")
    rest = messages[1:] if roles[:1] == ["system"] else messages
    if not rest or rest[0]["role"] != "user":
        bad.append("does not start with user")
    open_calls: list[str] = []
    seen: set[str] = set()
    before = "system"
    for m in rest:
        role = m["role"]
        calls = m.get("tool_calls", [])
        allowed = {
            "system": ("user",),
            "user": ("assistant",),
            "assistant": ("user",),
            "calls": ("tool",),
            "tool": ("tool", "assistant"),
        }[before]
        if role not in allowed:
            bad.append(f"{role} after {before}")
        if role != "tool" and open_calls:
            bad.append("a call without a result")
        if role == "tool":
            if m["tool_call_id"] in open_calls:
                open_calls.remove(m["tool_call_id"])
            else:
                bad.append("a result without its call")
        for call in calls:
            if not call["id"].strip() or call["id"] in seen:
                bad.append(f"call id {call['id']!r} is blank or used twice")
            seen.add(call["id"])
            open_calls.append(call["id"])
            if call["type"] != "function" or not call["function"]["name"]:
                bad.append("a call without type or name")
            if not isinstance(call["function"]["arguments"], str):
                bad.append("arguments are not a string")
        if not calls and not text_of(m).strip():
            bad.append(f"an empty {role} message")
        if not set(m) <= {
            "role",
            "content",
            "tool_calls",
            "tool_call_id",
            "reasoning_content",
            "reasoning",
        }:
            bad.append(f"unknown keys {sorted(m)}")
        before = "calls" if calls else role
    if open_calls:
        bad.append("a call without a result at the end")
    if roles[:1] == ["system"] and not text_of(messages[0]).strip():
        bad.append("an empty system message")
    try:
        json.dumps(request, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        bad.append("lone surrogates")
    return bad
