"""What end-to-end tests share: scripted replies, recorded requests, one-line conversations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from upyclaw_host.chat import ChatClient, TurnResult
from upyclaw_host.config import load_config
from upyclaw_host.relay import Relay, make_provider


def completion(text: str, **fields: Any) -> dict[str, Any]:
    """The body of an OpenAI-style answer."""
    return {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        **fields,
    }


def say(text: str, **line: Any) -> dict[str, Any]:
    """A script line that answers a chat request with `text`."""
    return {"for": "chat", "body": completion(text), **line}


class Scripted:
    """A board, a script of replies and the record of what the provider was asked."""

    def __init__(self, folder: Path, lines: list[dict[str, Any]]) -> None:
        self.script = folder / "script.jsonl"
        self.record = folder / "record.jsonl"
        self.script.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    def relay(self) -> Relay:
        return Relay(make_provider(f"script:{self.script}", load_config(), record=self.record))

    def requests(self) -> list[dict[str, Any]]:
        """Bodies of the chat requests so far."""
        lines = self.record.read_text("utf-8").splitlines()
        return [json.loads(line)["body"] for line in lines if json.loads(line)["for"] == "chat"]

    def messages(self, number: int = -1) -> list[tuple[str, str]]:
        """(role, content) of a recorded request without the system message."""
        return [
            (m["role"], m["content"])
            for m in self.requests()[number]["messages"]
            if m["role"] != "system"
        ]


def talk(port: str, relay: Relay | None, *texts: str) -> list[TurnResult]:
    """Connect, send each text as a turn, hang up."""

    async def run(client: ChatClient) -> list[TurnResult]:
        return [await client.turn(text) for text in texts]

    return with_client(port, relay, run)


def with_client(
    port: str, relay: Relay | None, body: Callable[[ChatClient], Awaitable[Any]]
) -> Any:
    """Run `body(client)` on a fresh connection."""

    async def run() -> Any:
        client = await ChatClient.connect(port, relay)
        try:
            return await body(client)
        finally:
            await client.close()

    return asyncio.run(run())
