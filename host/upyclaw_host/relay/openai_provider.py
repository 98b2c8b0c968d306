"""Provider `openai`: any server with the OpenAI chat-completions API, through the official SDK.

Owns: its settings, its bodies and replies. Adapting to the server is in quirks.py, what it shares
with other providers in sdk_provider.py. Must not touch: the link, pacing. Limits: `timeout`
seconds without a byte, 10 s to connect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import openai

from upyclaw_host.config import OpenAISettings
from upyclaw_host.errors import UserError
from upyclaw_host.relay.dialect import ChunkReader
from upyclaw_host.relay.errors import cut_off
from upyclaw_host.relay.events import DONE, read_events
from upyclaw_host.relay.provider import Item, Recorder, RetryPolicy
from upyclaw_host.relay.quirks import Quirks
from upyclaw_host.relay.sdk_provider import CONNECT_TIMEOUT, SdkProvider
from upyclaw_host.relay.urls import OPENAI, chat_completions_url, sdk_base


class OpenAIProvider(SdkProvider):
    """Streams replies of an OpenAI-compatible server. Raises UserError for settings that lack."""

    name = "openai"

    def __init__(
        self, settings: OpenAISettings, recorder: Recorder, retry: RetryPolicy | None = None
    ) -> None:
        url = chat_completions_url(settings.base_url, OPENAI, "openai.base_url")
        host = urlsplit(url).hostname or ""
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
        quirks = Quirks(settings.max_tokens_field, settings.empty_content)
        if official:
            # Its strict schema knows no such field; DeepSeek-like servers want it back (B04).
            quirks.dropped.add("reasoning_content")
        context = 128_000 if official else 8192
        super().__init__(settings, url, context, quirks, recorder, retry)
        self._client = openai.AsyncOpenAI(
            api_key=settings.api_key or "none",
            base_url=sdk_base(url, OPENAI),
            max_retries=0,
            timeout=openai.Timeout(settings.timeout, connect=CONNECT_TIMEOUT),
        )

    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        body = self._quirks.apply(
            {**request, "stream": True, "stream_options": {"include_usage": True}}
        )
        body["model"] = self.model
        return body

    async def _once(self, body: dict[str, Any]) -> AsyncIterator[Item]:
        extra = {k: v for k, v in body.items() if k not in ("model", "messages", "stream")}
        end = ChunkReader(self.url)
        done = False
        with self._faults(openai.APIStatusError):
            async with self._client.chat.completions.with_streaming_response.create(
                model=self.model, messages=body["messages"], stream=True, extra_body=extra
            ) as response:
                async for value in read_events(response.iter_bytes(), self.url):
                    if value is DONE:
                        done = True
                        break
                    end.feed(value)
                    yield value
        if end.finish is None and not done:
            raise cut_off()
