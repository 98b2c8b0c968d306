"""The companion's settings: flags before environment before `config.toml` before defaults.

Owns: finding, reading and checking the file in the user's config directory. Must not touch: the
network, the board's own config. Keys are kept out of `repr` and out of every message.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from upyclaw_host.errors import UserError

FILE_NAME = "config.toml"
DEFAULT_PROVIDER = "local"


@dataclass(frozen=True)
class OpenAISettings:
    """`[openai]`: any server with the OpenAI API. `timeout` in seconds, `context` in tokens."""

    base_url: str = "https://api.openai.com/v1"
    api_key: str = field(default="", repr=False)
    model: str = ""
    context: int = 0
    timeout: int = 120
    max_tokens_field: str = "max_tokens"
    empty_content: str = "null"


@dataclass(frozen=True)
class AnthropicSettings:
    """`[anthropic]`. `max_tokens` is used when the board's request names none."""

    base_url: str = "https://api.anthropic.com"
    api_key: str = field(default="", repr=False)
    model: str = "claude-haiku-4-5"
    context: int = 0
    timeout: int = 120
    max_tokens: int = 4096


@dataclass(frozen=True)
class LocalSettings:
    """`[local]`: the in-process model. `model` is a GGUF file, '' the one that comes along."""

    model: str = ""
    context: int = 8192
    threads: int = 0


@dataclass(frozen=True)
class RelaySettings:
    """`[relay]`: further tries after a failure that may pass, and the longest wait in seconds."""

    retries: int = 2
    retry_limit: int = 30


@dataclass(frozen=True)
class Config:
    """All settings. `hints` are sentences about the file that a person should read once."""

    provider: str = DEFAULT_PROVIDER
    openai: OpenAISettings = OpenAISettings()
    anthropic: AnthropicSettings = AnthropicSettings()
    local: LocalSettings = LocalSettings()
    relay: RelaySettings = RelaySettings()
    path: Path | None = None
    hints: tuple[str, ...] = ()


_Section = TypeVar("_Section", OpenAISettings, AnthropicSettings, LocalSettings, RelaySettings)
_CHOICES = {
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "empty_content": ("null", "empty", "omit"),
}
_ENVIRONMENT = {
    "openai": {
        "OPENAI_API_KEY": "api_key",
        "OPENAI_BASE_URL": "base_url",
        "OPENAI_MODEL": "model",
    },
    "anthropic": {
        "ANTHROPIC_API_KEY": "api_key",
        "ANTHROPIC_BASE_URL": "base_url",
        "ANTHROPIC_MODEL": "model",
    },
    "local": {"UPYCLAW_LOCAL_MODEL": "model"},
    "relay": {},
}


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where the settings file is looked for; UPYCLAW_CONFIG names another file."""
    given = (os.environ if environ is None else environ).get("UPYCLAW_CONFIG")
    return Path(given) if given else Path(platformdirs.user_config_dir("upyclaw")) / FILE_NAME


def load_config(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """The settings from file and environment; a missing file is fine.

    Raises UserError, one sentence with file and line or setting, for a file that cannot be used.
    """
    environ = os.environ if environ is None else environ
    path = path or config_path(environ)
    document, hints = _read(path)
    sections = {name: document.pop(name, {}) for name in _ENVIRONMENT}
    for name, table in sections.items():
        if not isinstance(table, dict):
            raise UserError(f"{path}: {name} must be a table; write [{name}] on its own line.")
    provider = document.pop("provider", DEFAULT_PROVIDER)
    if not isinstance(provider, str):
        raise UserError(f'{path}: provider must be a text such as "local" or "openai".')
    hints += [f"{path}: the setting {name} is unknown and does nothing." for name in document]
    config = Config(
        provider=environ.get("UPYCLAW_PROVIDER") or provider,
        openai=_section(OpenAISettings(), "openai", sections, environ, path, hints),
        anthropic=_section(AnthropicSettings(), "anthropic", sections, environ, path, hints),
        local=_section(LocalSettings(), "local", sections, environ, path, hints),
        relay=_section(RelaySettings(), "relay", sections, environ, path, hints),
        path=path if path.exists() else None,
    )
    return replace(config, hints=tuple(hints))


def with_model(config: Config, provider: str, model: str | None) -> Config:
    """The same settings with the model of a `--model` flag for that provider."""
    if not model:
        return config
    if provider == "openai":
        return replace(config, openai=replace(config.openai, model=model))
    if provider == "anthropic":
        return replace(config, anthropic=replace(config.anthropic, model=model))
    if provider == "local":
        return replace(config, local=replace(config.local, model=model))
    return config


def _read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The file as plain values, and a hint when others may read the keys in it."""
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); mend or remove it.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text; write it anew.") from None
    try:
        document = tomlkit.parse(text).unwrap()
    except ParseError as error:
        raise UserError(
            f"{path}, line {error.line}: this is not TOML; mend the line or remove the file."
        ) from None
    except TOMLKitError as error:
        raise UserError(f"{path}: {error}; mend the file or remove it.") from None
    keys = any(isinstance(t, dict) and t.get("api_key") for t in document.values())
    if keys and os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        return document, [f"{path} holds keys and others can read it: run chmod 600 {path}."]
    return document, []


def _section(
    defaults: _Section,
    name: str,
    sections: dict[str, Any],
    environ: Mapping[str, str],
    path: Path,
    hints: list[str],
) -> _Section:
    """One section: defaults, then the file's table, then the environment."""
    values: dict[str, Any] = {}
    known = {f.name: type(getattr(defaults, f.name)) for f in fields(defaults)}
    for key, value in sections[name].items():
        if key not in known:
            hints.append(f"{path}: the setting {name}.{key} is unknown and does nothing.")
            continue
        if type(value) is not known[key]:
            wanted = "a whole number" if known[key] is int else "a text in quotes"
            raise UserError(f"{path}: {name}.{key} must be {wanted}.")
        if isinstance(value, int) and value < 0:
            raise UserError(f"{path}: {name}.{key} must not be negative.")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise UserError(f"{path}: {name}.{key} must be one of {', '.join(_CHOICES[key])}.")
        values[key] = value.strip() if isinstance(value, str) else value
    for variable, key in _ENVIRONMENT[name].items():
        if environ.get(variable, "").strip():
            values[key] = environ[variable].strip()
    return replace(defaults, **values)
