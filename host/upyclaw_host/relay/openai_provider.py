"""Provider `openai`: any server with the OpenAI chat-completions API, through the official SDK.

Owns: one HTTP request a reply, adapting to the server (quirks.py). Retries are the relay's.
Must not touch: the link, pacing. Limits: `timeout` seconds without a byte, 10 s to connect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import openai

from upyclaw_host.config import OpenAISettings
from upyclaw_host.errors import UserError
from upyclaw_host.relay.dialect import ChunkReader
from upyclaw_host.relay.errors import ProviderError, cut_off, http_error, transport_error
from upyclaw_host.relay.events import DONE, read_events
from upyclaw_host.relay.provider import Item, Recorder, RetryPolicy
from upyclaw_host.relay.quirks import Quirks
from upyclaw_host.relay.urls import OPENAI, chat_completions_url, sdk_base

CONNECT_TIMEOUT = 10.0  # seconds


class OpenAIProvider:
    """Streams replies of an OpenAI-compatible server. Raises UserError for settings that lack."""

    name = "openai"

    def __init__(
        self, settings: OpenAISettings, recorder: Recorder, retry: RetryPolicy | None = None
    ) -> None:
        self.url = chat_completions_url(settings.base_url, OPENAI, "openai.base_url")
        host = urlsplit(self.url).hostname or ""
        official = host == "api.openai.com"
        if official and not settings.api_key:
            raise UserError(
                "There is no key for api.openai.com: set OPENAI_API_KEY, "
                "or openai.base_url to another server."
            )
        if not settings.model:
            raise UserError(
                f"No model is named for {host}: use --model, OPENAI_MODEL or openai.model."
            )
        self.model = settings.model
        self.context = settings.context or (128_000 if official else 8192)
        self.retry = retry or RetryPolicy()
        self._key = settings.api_key
        self._recorder = recorder
        self._quirks = Quirks(settings.max_tokens_field, settings.empty_content)
        if official:
            # Its strict schema knows no such field; DeepSeek-like servers want it back (B04).
            self._quirks.dropped.add("reasoning_content")
        self._client = openai.AsyncOpenAI(
            api_key=settings.api_key or "none",
            base_url=sdk_base(self.url, OPENAI),
            max_retries=0,
            timeout=openai.Timeout(settings.timeout, connect=CONNECT_TIMEOUT),
        )

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        """The reply; a 400 that names something we can change is answered by changing it."""
        while True:
            body = self._quirks.apply(
                {**request, "stream": True, "stream_options": {"include_usage": True}}
            )
            body["model"] = self.model
            self._recorder.write(kind, body)
            try:
                async for chunk in self._once(body):
                    yield chunk
                return
            except ProviderError as error:
                if not self._quirks.learn(error, body):
                    raise error.without(self._key) from None

    async def _once(self, body: dict[str, Any]) -> AsyncIterator[Item]:
        extra = {k: v for k, v in body.items() if k not in ("model", "messages", "stream")}
        end = ChunkReader(self.url)
        done = False
        try:
            async with self._client.chat.completions.with_streaming_response.create(
                model=self.model, messages=body["messages"], stream=True, extra_body=extra
            ) as response:
                async for value in read_events(response.iter_bytes(), self.url):
                    if value is DONE:
                        done = True
                        break
                    end.feed(value)
                    yield value
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except ProviderError:
            raise
        except Exception as error:
            # The SDK wraps most transport faults, but not those in mid-stream.
            raise transport_error(error, self.url, "openai.base_url") from error
        if end.finish is None and not done:
            raise cut_off()

    def _refused(self, error: openai.APIStatusError) -> ProviderError:
        return http_error(
            error.status_code,
            error.response.text,
            url=self.url,
            model=self.model,
            key_setting="OPENAI_API_KEY or openai.api_key",
            headers=error.response.headers,
            secrets=(self._key,),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
