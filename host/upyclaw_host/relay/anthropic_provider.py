"""Provider `anthropic`: Anthropic's messages API through the official SDK.

Owns: its settings and its call. Translation is in anthropic_dialect.py, what it shares with other
providers in sdk_provider.py. Must not touch: the link, pacing. Limits: `timeout` seconds without a
byte, 10 s to connect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import anthropic

from upyclaw_host.config import AnthropicSettings
from upyclaw_host.errors import UserError
from upyclaw_host.relay.anthropic_dialect import AnthropicReader, to_anthropic
from upyclaw_host.relay.errors import ProviderError, cut_off
from upyclaw_host.relay.events import DONE, read_events
from upyclaw_host.relay.provider import Item, Recorder, RetryPolicy
from upyclaw_host.relay.quirks import Quirks
from upyclaw_host.relay.sdk_provider import CONNECT_TIMEOUT, SdkProvider
from upyclaw_host.relay.urls import ANTHROPIC, chat_completions_url, sdk_base


class AnthropicProvider(SdkProvider):
    """Streams replies of Anthropic's API in OpenAI form. Raises UserError without a key."""

    name = "anthropic"

    def __init__(
        self, settings: AnthropicSettings, recorder: Recorder, retry: RetryPolicy | None = None
    ) -> None:
        if not settings.api_key:
            raise UserError(
                "There is no Anthropic key: set ANTHROPIC_API_KEY or anthropic.api_key."
            )
        url = chat_completions_url(settings.base_url, ANTHROPIC, "anthropic.base_url")
        super().__init__(settings, url, 200_000, Quirks(), recorder, retry)
        self._max_tokens = settings.max_tokens
        self._client = anthropic.AsyncAnthropic(
            api_key=settings.api_key,
            base_url=sdk_base(url, ANTHROPIC),
            max_retries=0,
            timeout=anthropic.Timeout(settings.timeout, connect=CONNECT_TIMEOUT),
        )

    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        body = to_anthropic(request, self._max_tokens)
        body = {k: v for k, v in body.items() if k not in self._quirks.dropped}
        if not body["messages"]:
            raise ProviderError(
                400, "The request holds no user text; write something first.", "request"
            )
        body.update(model=self.model, stream=True)
        return body

    async def _once(self, body: dict[str, Any]) -> AsyncIterator[Item]:
        rest = {k: v for k, v in body.items() if k not in ("model", "messages", "max_tokens")}
        reader = AnthropicReader(self.url)
        with self._faults(anthropic.APIStatusError):
            async with self._client.messages.with_streaming_response.create(
                model=self.model,
                messages=cast("Any", body["messages"]),
                max_tokens=body["max_tokens"],
                extra_body=rest,
            ) as response:
                async for event in read_events(response.iter_bytes(), self.url):
                    if event is DONE:
                        break
                    for chunk in reader.feed(event):
                        yield chunk
        if not reader.ended:
            raise cut_off()
