"""A simulated board for each test: same firmware image, fresh copy, real MicroPython."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from upyclaw_host.chat import ChatClient, TurnResult
from upyclaw_host.sim import SimBoard, build_flash
from upyclaw_host.relay import Relay, make_provider


@pytest.fixture(scope="session")
def flash_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flash") / "template.img"
    build_flash(path)
    return path


@pytest.fixture
def flash(tmp_path: Path, flash_template: Path) -> Path:
    """A flash image of its own with the firmware and no memory yet."""
    path = tmp_path / "flash.img"
    shutil.copy(flash_template, path)
    return path


@pytest.fixture
def board(flash: Path) -> Iterator[SimBoard]:
    simulated = SimBoard(flash)
    simulated.start()
    yield simulated
    simulated.stop()


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
        from upyclaw_host.config import load_config

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


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[[list[dict[str, Any]]], Scripted]:
    return lambda lines: Scripted(tmp_path, lines)


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
