"""Provider `anthropic`: Anthropic's messages API through the official SDK.

Owns: one HTTP request a reply. Translation is in anthropic_dialect.py, retries are the relay's.
Must not touch: the link, pacing. Limits: `timeout` seconds without a byte, 10 s to connect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import anthropic

from upyclaw_host.config import AnthropicSettings
from upyclaw_host.errors import UserError
from upyclaw_host.relay.anthropic_dialect import AnthropicReader, to_anthropic
from upyclaw_host.relay.errors import ProviderError, cut_off, http_error, transport_error
from upyclaw_host.relay.events import DONE, read_events
from upyclaw_host.relay.provider import Item, Recorder, RetryPolicy
from upyclaw_host.relay.quirks import Quirks
from upyclaw_host.relay.urls import ANTHROPIC, chat_completions_url, sdk_base

CONNECT_TIMEOUT = 10.0  # seconds


class AnthropicProvider:
    """Streams replies of Anthropic's API in OpenAI form. Raises UserError without a key."""

    name = "anthropic"

    def __init__(
        self, settings: AnthropicSettings, recorder: Recorder, retry: RetryPolicy | None = None
    ) -> None:
        if not settings.api_key:
            raise UserError(
                "There is no Anthropic key: set ANTHROPIC_API_KEY or anthropic.api_key."
            )
        self.url = chat_completions_url(settings.base_url, ANTHROPIC, "anthropic.base_url")
        self.model = settings.model
        self.context = settings.context or 200_000
        self.retry = retry or RetryPolicy()
        self._key = settings.api_key
        self._max_tokens = settings.max_tokens
        self._recorder = recorder
        self._quirks = Quirks()
        self._client = anthropic.AsyncAnthropic(
            api_key=settings.api_key,
            base_url=sdk_base(self.url, ANTHROPIC),
            max_retries=0,
            timeout=anthropic.Timeout(settings.timeout, connect=CONNECT_TIMEOUT),
        )

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        """The reply in OpenAI form; a refused `temperature` is left out from then on (B44)."""
        while True:
            body = to_anthropic(request, self._max_tokens)
            body = {k: v for k, v in body.items() if k not in self._quirks.dropped}
            if not body["messages"]:
                raise ProviderError(
                    400, "The request holds no user text; write something first.", "request"
                )
            body.update(model=self.model, stream=True)
            self._recorder.write(kind, body)
            try:
                async for chunk in self._once(body):
                    yield chunk
                return
            except ProviderError as error:
                if not self._quirks.learn(error, body):
                    raise error.without(self._key) from None

    async def _once(self, body: dict[str, Any]) -> AsyncIterator[Item]:
        rest = {k: v for k, v in body.items() if k not in ("model", "messages", "max_tokens")}
        reader = AnthropicReader(self.url)
        try:
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
        except anthropic.APIStatusError as error:
            raise self._refused(error) from None
        except ProviderError:
            raise
        except Exception as error:
            # The SDK wraps most transport faults, but not those in mid-stream.
            raise transport_error(error, self.url, "anthropic.base_url") from error
        if not reader.ended:
            raise cut_off()

    def _refused(self, error: anthropic.APIStatusError) -> ProviderError:
        return http_error(
            error.status_code,
            error.response.text,
            url=self.url,
            model=self.model,
            key_setting="ANTHROPIC_API_KEY or anthropic.api_key",
            headers=error.response.headers,
            secrets=(self._key,),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
