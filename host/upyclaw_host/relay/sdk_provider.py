"""What the providers that speak through an official SDK have in common.

Owns: the loop that asks again after a refusal that teaches something, and faults told as
ProviderError. Must not touch: the form of bodies and replies (the dialects), the link, pacing.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any

from upyclaw_host.config import AnthropicSettings, OpenAISettings
from upyclaw_host.relay.errors import ProviderError, http_error, transport_error
from upyclaw_host.relay.provider import Item, Recorder, RetryPolicy
from upyclaw_host.relay.quirks import Quirks

CONNECT_TIMEOUT = 10.0  # seconds


class SdkProvider(ABC):
    """One HTTP request a reply; what differs between the APIs is left to the subclass.

    `url` is the endpoint, `context` in tokens. Retries after passing faults are the relay's.
    """

    name: str
    _client: Any  # the SDK's; closed by close()

    def __init__(
        self,
        settings: OpenAISettings | AnthropicSettings,
        url: str,
        context: int,
        quirks: Quirks,
        recorder: Recorder,
        retry: RetryPolicy | None,
    ) -> None:
        self.url = url
        self.model = settings.model
        self.context = settings.context or context
        self.retry = retry or RetryPolicy()
        self._key = settings.api_key
        self._quirks = quirks
        self._recorder = recorder

    @abstractmethod
    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        """The body for a request, by all that was learnt of the server so far."""

    @abstractmethod
    def _once(self, body: dict[str, Any]) -> AsyncIterator[Item]:
        """One HTTP request and its reply in OpenAI form."""

    async def stream(self, request: dict[str, Any], kind: str) -> AsyncIterator[Item]:
        """The reply; a 400 that names something we can change is answered by changing it (B44)."""
        while True:
            body = self._body(request)
            self._recorder.write(kind, body)
            try:
                async for chunk in self._once(body):
                    yield chunk
                return
            except ProviderError as error:
                if not self._quirks.learn(error, body):
                    raise error.without(self._key) from None

    @contextlib.contextmanager
    def _faults(self, refused: type[Exception]) -> Iterator[None]:
        """What the SDK raises, as ProviderError; `refused` is its error with an HTTP status."""
        try:
            yield
        except ProviderError:
            raise
        except Exception as error:
            if isinstance(error, refused):
                raise self._refused(error) from None
            # The SDK wraps most transport faults, but not those in mid-stream.
            raise transport_error(error, self.url, f"{self.name}.base_url") from error

    def _refused(self, error: Any) -> ProviderError:
        return http_error(
            error.status_code,
            error.response.text,
            url=self.url,
            model=self.model,
            key_setting=f"{self.name.upper()}_API_KEY or {self.name}.api_key",
            headers=error.response.headers,
            secrets=(self._key,),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
