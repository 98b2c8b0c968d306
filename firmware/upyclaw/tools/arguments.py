"""Tool arguments as models send them, made into a dict (B14).

Owns the tolerance: string, object, one-element list, empty, null, JSON inside JSON, raw line ends.
What is none of these is not guessed at.
"""

import json

from upyclaw.compat import json_loads

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape_controls(text):
    """`text` with line ends and tabs inside its strings escaped."""
    out = []
    inside = False
    before = ""
    for ch in text:
        if ch == '"' and before != "\\":
            inside = not inside
        before = "" if before == "\\" else ch
        out.append(_ESCAPES.get(ch, ch) if inside else ch)
    return "".join(out)


def _loads(text):
    try:
        return json_loads(text)
    except (ValueError, RuntimeError):
        pass
    return json_loads(_escape_controls(text))


def parse_arguments(text):
    """The dict in `text` (str). Raises ValueError with a sentence for the model."""
    value = text
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}
        try:
            value = _loads(value)
        except (ValueError, RuntimeError):
            raise ValueError("The arguments are not whole JSON; send the call again.")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("The arguments must be a JSON object.")
    return value


def strict_text(text, value):
    """`value` (a dict read from `text`) as JSON of an object: `text` itself if that will do."""
    if text[:1] == "{" and min(text.encode()) >= 32:
        return text
    return json.dumps(value)
