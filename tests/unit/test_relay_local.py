"""The model that comes along, for real: short, on two cores about three seconds in all."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unit.relay_rig import ask
from upyclaw_host.config import Config, LocalSettings
from upyclaw_host.errors import UserError
from upyclaw_host.relay import Relay, make_provider
from upyclaw_host.relay.local import goes_round


def test_the_real_model_remembers_refuses_what_does_not_fit_and_stops(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"

    async def go() -> None:
        provider = make_provider("local", Config(local=LocalSettings(context=512)), record=record)
        assert provider.name == "local" and "SmolLM2" in provider.model
        relay = Relay(provider)

        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.02)
                beats += 1

        heart = asyncio.create_task(beat())
        messages = [
            {"role": "user", "content": "The gate code is 4417."},
            {"role": "assistant", "content": "I will remember it."},
            {"role": "user", "content": "What is the gate code?"},
        ]
        got = await ask(relay, {"messages": messages, "max_tokens": 24, "temperature": 0})
        assert got.status == 200 and "4417" in got.text, got
        assert got.finish in ("stop", "length") and got.usage is not None and got.done
        assert got.usage["prompt_tokens"] > 20 and got.usage["completion_tokens"] > 1
        assert beats > 5, "the event loop ran on while the model worked"

        long = {"messages": [{"role": "user", "content": "word " * 600}]}
        got = await ask(relay, long)
        assert got.status == 400 and got.error is not None and got.error["kind"] == "context"
        assert "512" in got.error["message"] and "/new" in got.error["message"]

        story = {"messages": [{"role": "user", "content": "Tell me a long story."}]}
        reply = await relay.respond("chat", json.dumps(story).encode())
        await anext(aiter(reply.pieces))
        await reply.close()
        start = time.monotonic()
        got = await ask(relay, {"messages": messages, "max_tokens": 4}, "chat")
        assert got.text and time.monotonic() - start < 8, "the story was stopped, the slot is free"
        heart.cancel()

    asyncio.run(go())
    assert len(record.read_text().splitlines()) == 4


def test_files_that_are_no_model(tmp_path: Path) -> None:
    fake = tmp_path / "model.gguf"
    fake.write_bytes(b"this is no model")
    with pytest.raises(UserError, match="not a GGUF"):
        make_provider("local", Config(), model=str(fake))
    with pytest.raises(UserError, match=r"missing\.gguf"):
        make_provider("local", Config(), model=str(tmp_path / "missing.gguf"))


def test_a_damaged_model_is_told_and_nothing_crashes(tmp_path: Path) -> None:
    fake = tmp_path / "model.gguf"
    fake.write_bytes(b"GGUF" + b"\x03\0\0\0" + b"\xff" * 64)
    provider = make_provider("local", Config(), model=str(fake))
    got = asyncio.run(ask(Relay(provider)))
    assert got.error is not None and got.error["kind"] == "gone"
    assert "model.gguf" in got.error["message"] and "--model" in got.error["message"]


class FakeLibrary:
    """In place of `xllamacpp`: loads when `ready` is set, answers with `reply`, or fails."""

    def __init__(self, *reply: Any) -> None:
        self.ready = threading.Event()
        self.policy: str | None = None
        self.asked: list[Any] = []
        self._reply = reply

    def CommonParams(self) -> Any:
        return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace())

    def Server(self, params: Any) -> Any:
        self.policy = os.environ.get("OMP_WAIT_POLICY")
        assert self.ready.wait(10)
        return SimpleNamespace(handle_chat_completions=self._chat)

    def _chat(self, body: dict[str, Any], take: Any) -> None:
        self.asked.append(body["messages"])
        for chunk in self._reply:
            if take(chunk):
                return


HELLO = {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}


def test_a_request_given_up_while_the_model_loads_leaves_the_model_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeLibrary(HELLO)
    monkeypatch.setitem(sys.modules, "xllamacpp", library)

    async def go() -> None:
        relay = Relay(make_provider("local", Config()))
        early = asyncio.create_task(ask(relay))
        await asyncio.sleep(0.05)
        early.cancel()
        with pytest.raises(asyncio.CancelledError):
            await early
        library.ready.set()
        got = await asyncio.wait_for(ask(relay), 5)
        assert got.text == "Hello." and got.done

    asyncio.run(go())


@pytest.mark.parametrize(("users", "used"), [(None, "passive"), ("active", "active")])
def test_the_models_threads_do_not_spin_beside_other_work(
    monkeypatch: pytest.MonkeyPatch, users: str | None, used: str
) -> None:
    # Spinning threads starve each other on a busy machine: a reply took minutes.
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if users:
        monkeypatch.setenv("OMP_WAIT_POLICY", users)
    library = FakeLibrary(HELLO)
    library.ready.set()
    monkeypatch.setitem(sys.modules, "xllamacpp", library)
    got = asyncio.run(ask(Relay(make_provider("local", Config()))))
    assert got.text == "Hello." and library.policy == used


@pytest.mark.parametrize(
    ("text", "round_and_round"),
    [
        ("I'm a bit of a wizard. " * 8, True),
        ("My answer: " + "A single star,\n" * 8, True),
        ("他很勇敢。" * 8, True),
        ("I'm a bit of a wizard. " * 7, False),
        ("I'm not a magic spell. I'm here to help with any questions or problems. " * 3, True),
        ("I'm not a magic spell. I'm here to help with any questions or problems. " * 2, False),
        ("", False),
        ("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", False),
        ("-" * 400, False),
        (", ".join(str(n) for n in range(200)), False),
        ("".join(f"{n}. He was brave.\n" for n in range(50)), False),
        (" " * 900, False),
    ],
)
def test_a_phrase_said_over_and_over(text: str, round_and_round: bool) -> None:
    assert goes_round(text) is round_and_round


def test_an_extraction_of_endless_signs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # What SmolLM2 says to `I moved from Kiel to Hamburg.`, for half a minute.
    start = '{"intent":"none","memories":[{"content":"...","tags":['
    chunks = [{"choices": [{"delta": {"content": c}}]} for c in (start, *['"...",'] * 400)]
    library = FakeLibrary(*chunks)
    library.ready.set()
    monkeypatch.setitem(sys.modules, "xllamacpp", library)
    relay = Relay(make_provider("local", Config()))
    got = asyncio.run(ask(relay, kind="extract"))
    assert got.text == start + '"...",' * 8 and got.done
    assert len(asyncio.run(ask(relay)).text) > 2000, "in a talk only words count"
    assert not goes_round("", signs=True)


def test_a_reply_that_goes_round_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [{"choices": [{"delta": {"content": f"{w} "}}]} for w in ("I", "am", "a", "wizard.")]
    library = FakeLibrary({"choices": [{"delta": {"content": "Well, "}}]}, *words * 100)
    library.ready.set()
    monkeypatch.setitem(sys.modules, "xllamacpp", library)
    got = asyncio.run(ask(Relay(make_provider("local", Config()))))
    assert got.text == "Well, " + "I am a wizard. " * 8
    assert got.done and got.finish == "stop" and got.error is None


@pytest.mark.parametrize("own", [False, True])
def test_the_small_model_gets_what_it_was_told_and_the_newest_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: bool
) -> None:
    library = FakeLibrary(HELLO)
    library.ready.set()
    monkeypatch.setitem(sys.modules, "xllamacpp", library)
    file = tmp_path / "big.gguf"
    file.write_bytes(b"GGUF")
    talk = [("system", "Be kind."), ("user", "I am Ada."), ("assistant", "Yes.")]
    talk += [("user", "我叫什么？"), ("assistant", "Yes."), ("user", "Who am I? ")]
    messages = [{"role": role, "content": content} for role, content in talk]
    record = tmp_path / "record.jsonl"
    relay = Relay(
        make_provider("local", Config(), model=str(file) if own else None, record=record)
    )
    asyncio.run(ask(relay, {"messages": messages}))
    # Somebody's own model gets the talk as it was; the record shows it as it came.
    assert library.asked == [messages if own else [messages[0], messages[1], messages[-1]]]
    assert json.loads(record.read_text("utf-8"))["body"]["messages"] == messages
