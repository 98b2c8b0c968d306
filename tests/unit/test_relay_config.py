"""Settings: order of flag, environment, file and default; broken files; base URLs (B10)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from upyclaw_host.config import config_path, load_config, with_model
from upyclaw_host.errors import UserError
from upyclaw_host.relay.urls import ANTHROPIC, OPENAI, chat_completions_url, sdk_base

CASES = json.loads(
    (Path(__file__).parents[1] / "data" / "cases" / "B10.json").read_text(encoding="utf-8")
)["cases"]
KEY = "sk-very-secret-0123456789"


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("entry", CASES, ids=[e["name"] for e in CASES])
def test_every_spelling_of_a_base_url(entry: Any) -> None:
    given, expected = entry["input"], entry["expected"]
    if "url" in expected:
        assert chat_completions_url(given["base_url"], given["backend_type"]) == expected["url"]
        return
    with pytest.raises(UserError) as caught:
        chat_completions_url(given["base_url"], given["backend_type"])
    assert expected["refused_with_setting_name"] in caught.value.message


@pytest.mark.parametrize(
    ("given", "backend", "url"),
    [
        ("https://openrouter.ai/api", OPENAI, "https://openrouter.ai/api/v1/chat/completions"),
        (
            "https://x.example/api/paas/v4/",
            OPENAI,
            "https://x.example/api/paas/v4/chat/completions",
        ),
        (
            "https://g.example/v1beta/openai/",
            OPENAI,
            "https://g.example/v1beta/openai/chat/completions",
        ),
        ("http://[::1]:8080//v1//chat", OPENAI, "http://[::1]:8080/v1/chat/completions"),
        ("http://h/v1/models?x=1#y", OPENAI, "http://h/v1/chat/completions"),
        (
            "https://api.anthropic.com/v1/messages/",
            ANTHROPIC,
            "https://api.anthropic.com/v1/messages",
        ),
        ("https://gw.example/anthropic", ANTHROPIC, "https://gw.example/anthropic/v1/messages"),
    ],
)
def test_more_spellings(given: str, backend: str, url: str) -> None:
    assert chat_completions_url(given, backend) == url
    assert chat_completions_url(url, backend) == url, "the result is a spelling too"
    tail = "/chat/completions" if backend == OPENAI else "/v1/messages"
    assert sdk_base(url, backend) + tail == url


@pytest.mark.parametrize(
    "given", ["localhost:11434", "http://", "ftp://h", "http://h:port/v1", "//h"]
)
def test_no_url_is_refused_with_the_setting(given: str) -> None:
    with pytest.raises(UserError, match=r"openai\.base_url"):
        chat_completions_url(given, OPENAI, "openai.base_url")


def test_a_password_in_a_bad_url_is_not_repeated() -> None:
    with pytest.raises(UserError) as caught:
        chat_completions_url(f"user:{KEY}@host/v1", OPENAI)
    assert KEY not in caught.value.message


def test_nothing_configured_means_the_local_model(tmp_path: Path) -> None:
    config = load_config(tmp_path / "none.toml", {})
    assert config.provider == "local" and config.path is None and config.hints == ()
    assert config.openai.base_url == "https://api.openai.com/v1" and config.openai.api_key == ""


def test_environment_beats_file_and_flag_beats_both(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f'provider = "openai"\n[openai]\nbase_url = "http://a"\napi_key = "{KEY}"\n'
        'model = "one"\n',
    )
    config = load_config(path, {})
    assert (config.provider, config.openai.model, config.openai.api_key) == ("openai", "one", KEY)
    assert load_config(path, {"OPENAI_MODEL": " "}).openai.model == "one", "blank is unset"
    env = {"OPENAI_MODEL": " two ", "UPYCLAW_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "k"}
    config = load_config(path, env)
    assert (config.provider, config.openai.model, config.anthropic.api_key) == (
        "anthropic",
        "two",
        "k",
    )
    assert config.openai.base_url == "http://a", "an unset variable changes nothing"
    assert with_model(config, "openai", "three").openai.model == "three"
    assert with_model(config, "local", "x.gguf").local.model == "x.gguf"
    assert with_model(config, "openai", None) == config
    assert KEY not in repr(config)


def test_where_the_file_is(tmp_path: Path) -> None:
    assert config_path({"UPYCLAW_CONFIG": str(tmp_path / "c")}) == tmp_path / "c"
    assert config_path({}).name == "config.toml" and "upyclaw" in str(config_path({}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('provider = "local"\n[openai\nmodel = "m"\n', ["line 2"]),
        (f'[openai]\napi_key = "{KEY}\n', ["line 2"]),
        ("provider = 3\n", ["provider"]),
        ('openai = "x"\n', ["[openai]"]),
        ("[openai]\nmodel = 5\n", ["openai.model", "text"]),
        ('[local]\ncontext = "big"\n', ["local.context", "whole number"]),
        ("[relay]\nretries = -1\n", ["relay.retries"]),
        ("[openai]\ntimeout = true\n", ["openai.timeout"]),
        ('[openai]\nmax_tokens_field = "x"\n', ["max_tokens_field", "max_completion_tokens"]),
        ("a = 1\na = 2\n", ["config.toml"]),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        load_config(path, {})
    message = caught.value.message
    assert str(path) in message and "\n" not in message and KEY not in message
    assert all(word in message for word in words), message


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load_config(tmp_path, {})
    path = tmp_path / "config.toml"
    path.write_bytes(b"provider = '\xff'")
    with pytest.raises(UserError, match="UTF-8"):
        load_config(path, {})


def test_hints_for_unknown_settings_and_open_keys(tmp_path: Path) -> None:
    path = write(tmp_path, f'colour = 1\n[openai]\napi_key = "{KEY}"\nmodle = "x"\n')
    hints = load_config(path, {}).hints
    assert len(hints) == 2 and "colour" in hints[0] + hints[1]
    assert any("openai.modle" in hint for hint in hints)
    if os.name == "posix":
        path.chmod(0o644)
        opened = [h for h in load_config(path, {}).hints if "chmod 600" in h]
        assert opened and str(path) in opened[0] and KEY not in opened[0]
