"""Record bytes -> JSON value, forgiving; and what exactly was wrong with the bytes.

Owns: UTF-8 and JSON as they are found in old or damaged files (B05, B06): bytes that are no UTF-8,
surrogate halves written as three bytes, halves escaped as `\\ud83d`, raw control characters.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_SURROGATE_PAIR = re.compile(rb"\xed([\xa0-\xaf])([\x80-\xbf])\xed([\xb0-\xbf])([\x80-\xbf])")
_SURROGATE_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_MARK = "\ufffd"

MAX_DEPTH = 200  # levels of nesting above which a record counts as no JSON


@dataclass(frozen=True)
class Problem:
    """Something wrong inside a record: `at` is the byte within the record."""

    code: str
    at: int
    message: str


@dataclass(frozen=True)
class Parsed:
    """A record's JSON. `ok` is False if it is no JSON at all; then `value` is None."""

    ok: bool
    value: Any
    problems: tuple[Problem, ...]


def _join_pair(match: re.Match[bytes]) -> bytes:
    high = ((match[1][0] & 0x0F) << 6) | (match[2][0] & 0x3F)
    low = ((match[3][0] & 0x0F) << 6) | (match[4][0] & 0x3F)
    return chr(0x10000 + (high << 10) + low).encode()


def clean_text(raw: bytes) -> str:
    """Any bytes as text: surrogate pairs joined, what else is no UTF-8 becomes U+FFFD."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        joined = _SURROGATE_PAIR.sub(_join_pair, raw)
        return _SURROGATE_HALF.sub(_MARK.encode(), joined).decode("utf-8", "replace")


def _join_halves(text: str) -> str:
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mend(value: Any, depth: int = MAX_DEPTH) -> Any:
    if isinstance(value, str):
        return _join_halves(value)
    if not depth:
        raise RecursionError
    if isinstance(value, list):
        return [_mend(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {_join_halves(key): _mend(item, depth - 1) for key, item in value.items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _integer(digits: str) -> Any:
    return int(digits) if len(digits) <= 4000 else digits


def _load(text: str, strict: bool) -> Any:
    return json.loads(text, strict=strict, parse_constant=_no_constant, parse_int=_integer)


def _load_lenient(text: str, problems: list[Problem]) -> Any:
    """The value; control characters inside strings are taken and told."""
    try:
        return _load(text, True)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Invalid control character"):
            raise
        value = _load(text, False)
        at = len(text[: error.pos].encode("utf-8", "surrogatepass"))
        what = f"control byte 0x{ord(text[error.pos]):02x} stands unescaped in a string"
        code = "nul-byte" if text[error.pos] == "\0" else "raw-control"
        problems.append(Problem(code, at, what))
        return value


def _byte_problems(raw: bytes) -> list[Problem]:
    problems: list[Problem] = []
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        half = _SURROGATE_HALF.match(raw, error.start)
        if half is not None:
            problems.append(
                Problem(
                    "surrogate-bytes", error.start, f"surrogate half {half[0].hex(' ')} as UTF-8"
                )
            )
        else:
            bad = raw[error.start : error.end].hex(" ")
            problems.append(Problem("not-utf8", error.start, f"bytes {bad} are not UTF-8"))
    return problems


def parse(raw: bytes) -> Parsed:
    """Parse one record (without its line feed). Never raises."""
    problems = _byte_problems(raw)
    text = clean_text(raw)
    try:
        value = _mend(_load_lenient(text, problems))
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8", "surrogatepass"))
        problems.append(Problem("not-json", min(at, len(raw)), f"not JSON: {error.msg}"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        problems.append(Problem("not-json", 0, f"not JSON: {reason}"))
    else:
        return Parsed(True, value, tuple(problems))
    return Parsed(False, None, tuple(problems))
