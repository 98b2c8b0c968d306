"""The exact request body a board would send for a line, made by the device's own agent.

Owns: putting copies of a session, a memory and the settings where the agent finds them, and a
model client that takes the body and answers nothing. The source is never written.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.formats.catalog import Session
from upyclaw_host.formats.memory import Memory
from upyclaw_host.source import Source

CONFIG = "config.json"


@dataclass
class BoardRequest:
    """`body` is what goes over the wire, byte for byte, or None if the board answers by itself:
    `answer` then. `parts` are (part of the request, bytes); `sent` and `records` count records of
    the history."""

    body: bytes | None = None
    answer: str = ""
    parts: list[tuple[str, int]] = field(default_factory=list)
    sent: int = 0
    records: int = 0
    context: int = 0
    notices: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; `body` parsed."""
        return {
            "body": None if self.body is None else json.loads(self.body),
            "bytes": 0 if self.body is None else len(self.body),
            "parts": [{"part": name, "bytes": size} for name, size in self.parts],
            "records_sent": self.sent,
            "records": self.records,
            "context_tokens": self.context,
            "answer": self.answer or None,
            "notices": self.notices,
        }


class _Capture:
    """Stands for the model client: takes the request of the turn and then is gone."""

    available = True
    why = ""

    def __init__(self, settings: dict[str, Any], context: int | None, tools: bool) -> None:
        server = settings["model"]
        # Without a server of its own the board leaves the model's name to the relay.
        self.model = server["name"] if server["base_url"] else ""
        self.context = context or server["context"]
        self.tools = tools
        self.taken: BoardRequest | None = None

    async def chat(
        self, request: Any, handler: Any, kind: str = "chat", timeout_ms: int = 0
    ) -> None:
        """Keep the body of the first chat request."""
        from upyclaw.llm.errors import LLMError

        if kind == "chat" and self.taken is None:
            if self.model:
                request.model = self.model
            body = b"".join(bytes(piece) for piece in request.pieces(bytearray(1024)))
            count = request.session.count
            self.taken = BoardRequest(
                body, "", list(request.report), count - request.first, count, self.context
            )
        raise LLMError("gone", "Only the request was wanted.")


class _Sink:
    """Takes the board's words."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.notes: list[str] = []

    def text(self, text: str) -> None:
        self.words.append(text)

    async def drain(self) -> None:
        pass

    async def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def read_settings(source: Source, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Settings of the board in `source`, as the device reads its /config.json, and what is wrong
    with them. The defaults where there is none (files pulled without it)."""
    from upyclaw import config

    place = folder / CONFIG
    data = source.optional(CONFIG)
    if data:
        place.write_bytes(data)
    settings, problems = config.load(place.as_posix())
    return settings, [one.replace(place.as_posix(), "/" + CONFIG) for one in problems]


def make_request(
    source: Source,
    session: Session,
    memory: Memory | None,
    text: str,
    *,
    context: int | None = None,
    tools: bool | None = None,
) -> BoardRequest:
    """The request for `text` as the next line of `session`.

    `context` (tokens) and `tools` tell what the model can; None: as the settings say, and a model
    that calls tools. Raises UserError for a command and if the board could not take the line.
    """
    if text.lstrip().startswith("/"):
        command = text.split()[0]
        raise UserError(f"{command} is a command: the board answers it without a model.", 1)
    with tempfile.TemporaryDirectory(prefix="upyclaw-request-") as name:
        folder = Path(name)
        settings, problems = read_settings(source, folder)
        if tools is not None:
            settings["prompt"]["tools"] = "on" if tools else "off"
        for role, path in session.files.items():
            _put(folder / "sessions" / path.rpartition("/")[2], session.bytes.parts[role])
        for file, data in (memory.files if memory is not None else {}).items():
            _put(folder / "memory" / file, data)
        client = _Capture(settings, context, tools is not False)
        sink = _Sink()
        fields = _answer(folder, settings, session, client, text, sink)
    taken = client.taken or BoardRequest(answer="".join(sink.words))
    taken.notices = problems + sink.notes
    if client.taken is None and not sink.words:
        raise UserError(str(fields.get("error") or "An empty line is not sent."), 1)
    return taken


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def _answer(
    folder: Path,
    settings: dict[str, Any],
    session: Session,
    client: _Capture,
    text: str,
    sink: _Sink,
) -> dict[str, Any]:
    """Let the agent answer the line on the copies in `folder`; the fields of its end event."""
    from upyclaw.agent import Agent
    from upyclaw.app import App
    from upyclaw.mind import Mind
    from upyclaw.storage import SessionStore, StorageError
    from upyclaw.storage.session import Session as DeviceSession
    from upyclaw.tools.builtin import builtin_tools
    from upyclaw.tools.registry import Registry

    def zone() -> int:
        return time.localtime().tm_gmtoff

    def registry(memory: bool) -> Any:
        own = builtin_tools("", "/", zone)
        return Registry(own + (mind.tools() if mind and memory else []))

    async def run() -> dict[str, Any]:
        agent = Agent(store, client, settings, registry, mind)
        # An ID may name files that no chat owns: the session is given, not looked up.
        agent.session = lambda chat: opened
        agent.map = lambda chat: SimpleNamespace(
            current=lambda: (session.title, opened.sid), take_notices=list
        )
        board = SimpleNamespace(settings=settings)
        agent.sees_memory = lambda chat: App.sees_memory(board, chat)
        fields: dict[str, Any] = await agent.answer(session.chat or "", text, sink)
        return fields

    mind: Any = None
    limits = settings["session"]
    try:
        store = SessionStore((folder / "sessions").as_posix(), limits["limit"])
        opened = DeviceSession(store, session.id or session.base, session.base)
        opened.claimed = True
        opened.settle_user()
        if settings["memory"]["mode"] != "off":
            memory = (folder / "memory").as_posix()
            secrets = [settings["model"]["api_key"]]
            mind = Mind(settings, client, None, zone, lambda: secrets, memory)
        return asyncio.run(run())
    except (StorageError, OSError) as error:
        raise UserError(f"{session.title} can't be used: {error}", 1) from None
