"""Serves a board's model requests: providers, the relay, the link service.

Owns: everything between the board's OpenAI-form request and a provider. Must not touch: frames and
ports (upyclaw_host.link), the chat. Providers are imported only when they are used.
"""

from __future__ import annotations

from pathlib import Path

from upyclaw_host.config import Config, load_config, with_model
from upyclaw_host.errors import UserError
from upyclaw_host.relay.errors import ProviderError
from upyclaw_host.relay.provider import Provider, Recorder, RetryPolicy
from upyclaw_host.relay.relay import Limits, Relay, RelayReply
from upyclaw_host.relay.serve import OnServed, Served, serve_link

PROVIDERS = ("openai", "anthropic", "local", "script:FILE")


def make_provider(
    spec: str | None,
    config: Config | None = None,
    *,
    model: str | None = None,
    record: Path | None = None,
) -> Provider:
    """The provider for a `--provider` value; None takes the configured one (default `local`).

    `model` overrides the configured model, `record` is the file of `--record`. Raises UserError.
    """
    config = config or load_config()
    name, _, rest = (spec or config.provider).strip().partition(":")
    config = with_model(config, name, model)
    recorder = Recorder(record)
    retry = RetryPolicy(retries=config.relay.retries, limit=float(config.relay.retry_limit))
    if name == "openai":
        from upyclaw_host.relay.openai_provider import OpenAIProvider

        return OpenAIProvider(config.openai, recorder, retry)
    if name == "anthropic":
        from upyclaw_host.relay.anthropic_provider import AnthropicProvider

        return AnthropicProvider(config.anthropic, recorder, retry)
    if name == "local":
        from upyclaw_host.relay.local import LocalProvider

        return LocalProvider(config.local, recorder)
    if name == "script" and rest:
        from upyclaw_host.relay.script import ScriptProvider

        return ScriptProvider(Path(rest), recorder)
    raise UserError(
        f'There is no provider "{spec or config.provider}": use one of {", ".join(PROVIDERS)}.'
    )


__all__ = [
    "PROVIDERS",
    "Limits",
    "OnServed",
    "Provider",
    "ProviderError",
    "Relay",
    "RelayReply",
    "Served",
    "make_provider",
    "serve_link",
]
