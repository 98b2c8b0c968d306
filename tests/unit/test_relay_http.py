"""The relay over the network: real sockets, the openai package, and the board's own client."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from click.testing import CliRunner

from unit.test_http_client import run_jobs
from unit.test_relay_serve import TalkingProvider
from upyclaw_host.cli.relay import command
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Relay, Served
from upyclaw_host.relay.http import HttpRelay, RelayServer, parse_address
from upyclaw_host.relay.tokens import Tokens


class Rig:
    """A running server with the token of one board."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.provider = TalkingProvider()
        self.served: list[Served] = []
        self.tokens = Tokens(folder / "tokens.json")
        self.token = self.tokens.add("desk")
        http = HttpRelay(Relay(self.provider), self.tokens, self.served.append, **limits)
        self.server = RelayServer(http, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.port}/v1"

    def client(self, token: str | None = None) -> httpx2.AsyncClient:
        token = self.token if token is None else token
        return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=5)

    async def post(self, body: Any, **headers: str) -> httpx2.Response:
        async with self.client() as client:
            return await client.post(f"{self.url}/chat/completions", json=body, headers=headers)


@asynccontextmanager
async def running(folder: Path, **limits: Any) -> AsyncIterator[Rig]:
    rig = Rig(folder, **limits)
    task = asyncio.create_task(rig.server.serve())
    try:
        yield rig
    finally:
        rig.server.stop()
        await asyncio.wait_for(task, 5)


def request(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def test_openai_package(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as rig:
            client = openai.AsyncOpenAI(base_url=rig.url, api_key=rig.token, max_retries=0)
            words = []
            stream = await client.chat.completions.create(
                model="any", stream=True, messages=[{"role": "user", "content": "good day 世界"}]
            )
            async for chunk in stream:
                words.append(chunk.choices[0].delta.content or "")
            assert "".join(words) == "good day 世界 "
            whole = await client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "all at once"}]
            )
            assert whole.choices[0].message.content == "all at once "
            assert whole.choices[0].finish_reason == "stop"
            models = await client.models.list()
            assert [m.id for m in models.data] == ["t"]
            bad = openai.AsyncOpenAI(base_url=rig.url, api_key="upc_wrong", max_retries=0)
            with pytest.raises(openai.AuthenticationError):
                await bad.models.list()

    asyncio.run(run())


def test_board(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as rig:
            jobs = [
                {"text": "hello from flash " * 500},
                {"kind": "extract", "text": "a fact"},
                {"text": "half fail"},
                {"text": "the end"},
            ]
            results, _ = await run_jobs(tmp_path, jobs, base_url=rig.url, api_key=rig.token)
            assert results[0]["text"] == "hello from flash " * 500
            assert rig.provider.kinds[:2] == ["chat", "extract"]
            assert results[2]["kind"] == "rate" and results[2]["text"].startswith("half")
            assert results[3]["text"] == "the end "
            assert len(rig.served) == 4 and rig.served[1].kind == "extract"
            results, _ = await run_jobs(tmp_path, [{}], base_url=rig.url, api_key="upc_wrong123")
            assert results[0]["kind"] == "auth" and "token" in results[0]["error"]
            assert "wrong123" not in results[0]["error"]

    asyncio.run(run())


def test_strangers(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as rig:
            for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": rig.token}):
                async with httpx2.AsyncClient(headers=headers) as client:
                    answer = await client.post(f"{rig.url}/chat/completions", json=request("x"))
                    assert answer.status_code == 401
                    assert answer.json()["error"]["kind"] == "auth"
                    assert (await client.get(f"{rig.url}/models")).status_code == 401
            assert rig.provider.kinds == []
            # Taken away while the relay runs.
            assert (await rig.post(request("x"))).status_code == 200
            rig.tokens.remove("desk")
            assert (await rig.post(request("x"))).status_code == 401

    asyncio.run(run())


def test_bad_requests(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, body_limit=10000, body_seconds=0.3) as rig:
            assert (await rig.post(request("x" * 20000))).status_code == 413
            for body in ([], {}, {"messages": 3}):
                answer = await rig.post(body)
                assert answer.status_code == 400 and answer.json()["error"]["message"]
            answer = await rig.post(request("fail"))
            assert answer.status_code == 429 and answer.headers["retry-after"] == "7"
            assert (await rig.post(request("crash"))).status_code == 502
            assert (await rig.post(request("fine"))).status_code == 200

            async def pieces(count: int, pause: float) -> AsyncIterator[bytes]:
                for _ in range(count):
                    yield b"x" * 1000
                    await asyncio.sleep(pause)

            async with rig.client() as client:
                url = f"{rig.url}/chat/completions"
                # No Content-Length: counted while it comes. Then one that comes too slowly.
                assert (await client.post(url, content=pieces(50, 0))).status_code == 413
                assert (await client.post(url, content=pieces(9, 0.2))).status_code == 408
                missing = await client.get(rig.url.replace("/v1", "/../../etc/passwd"))
                assert missing.status_code == 404
            assert (await rig.post(request("fine"))).status_code == 200

    asyncio.run(run())


def test_four_at_once_and_hanging_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as rig:
            url = f"{rig.url}/chat/completions"
            async with rig.client() as client:

                async def hang(started: asyncio.Event) -> None:
                    body = request("hang", stream=True)
                    async with client.stream("POST", url, json=body) as reply:
                        async for _ in reply.aiter_bytes():
                            started.set()

                events = [asyncio.Event() for _ in range(4)]
                tasks = [asyncio.create_task(hang(event)) for event in events]
                await asyncio.wait_for(asyncio.gather(*(e.wait() for e in events)), 5)
                fifth = await rig.post(request("hi"))
                assert fifth.status_code == 429 and fifth.headers["retry-after"]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for _ in range(100):
                if rig.provider.stopped == 4:
                    break
                await asyncio.sleep(0.05)
            assert rig.provider.stopped == 4
            assert (await rig.post(request("hi"))).status_code == 200

    asyncio.run(run())


def test_half_open_connections_stall_nobody(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as rig:
            idle = [await asyncio.open_connection("127.0.0.1", rig.server.port) for _ in range(20)]
            for _, writer in idle:
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.server.port)
            writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 100000 + b"\r\n\r\n")
            assert b" 400 " in await reader.readline()
            assert (await rig.post(request("still here"))).status_code == 200
            for _, writer in idle:
                writer.close()

    asyncio.run(run())


def test_address_taken(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(UserError, match=f"127.0.0.1:{rig.server.port}"):
        RelayServer(HttpRelay(Relay(rig.provider), rig.tokens), "127.0.0.1", rig.server.port)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:8000", ("0.0.0.0", 8000)),
        (":8000", ("0.0.0.0", 8000)),
        ("8000", ("0.0.0.0", 8000)),
        ("localhost", ("localhost", 8765)),
        ("[::1]:99", ("::1", 99)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "a:b", "1.2.3.4:70000", "a:1:2"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(UserError, match="--listen"):
        parse_address(text)


def test_token_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPYCLAW_CONFIG", str(tmp_path / "conf" / "config.toml"))
    run = CliRunner()
    made = json.loads(run.invoke(command, ["token", "add", "desk", "--json"]).output)
    run.invoke(command, ["token", "add", "shelf"])
    file = tmp_path / "conf" / "relay-tokens.json"
    assert made["token"] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Tokens().owner(made["token"]) == "desk"
    assert run.invoke(command, ["token", "list"]).output.split() == ["desk", "shelf"]
    again = run.invoke(command, ["token", "add", "desk"])
    assert "the old one is worth nothing" in again.stderr
    assert Tokens().owner(made["token"]) is None
    run.invoke(command, ["token", "remove", "desk"])
    for arguments in (["token", "remove", "desk"], ["token", "add", "a b"], []):
        assert isinstance(run.invoke(command, arguments).exception, UserError)
    run.invoke(command, ["token", "remove", "shelf"])
    script = tmp_path / "script.jsonl"
    script.write_text('{"for":"chat","body":"x"}\n')
    result = run.invoke(command, ["--listen", "127.0.0.1:0", "--provider", f"script:{script}"])
    assert isinstance(result.exception, UserError)
    assert "upyclaw relay token add" in result.exception.message
