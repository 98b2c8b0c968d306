"""One long-term item as a line of memory_records.jsonl: reading it (SPEC-longterm §1, §5).

Owns: field limits, labels, what a line of any origin is taken for. Writing is in render.py. Must
not know about files or the index. An item is a dict with the keys of the line.
"""

from ..compat import const, json_loads, utf8_clean
from .cuts import cut

CONTENT = const(255)
TAGS = const(95)
KEYWORDS = const(127)
SOURCE = const(15)
ID = const(39)
# What our own reader still takes: a reference item whose escapes made it longer than its line.
LINE_READ = const(3200)


def split_terms(text):
    """The terms of a tag or keyword list: split at `, ; / |`, trimmed, empty ones dropped."""
    out: list[str] = []
    for sep in ";/|":
        text = text.replace(sep, ",")
    for term in text.split(","):
        term = term.strip(" ")
        if term:
            out.append(term)
    return out


def labels_of(tags):
    """Summary labels of an item: the first 8 characters of each tag, each once, at most 3."""
    out: list[str] = []
    for term in split_terms(tags):
        label = term[:8]
        if label not in out and len(out) < 3:
            out.append(label)
    return out


def peek(line, key):
    """The string `key` (bytes) of a line as we write it, without parsing it; None: parse it.

    A quote inside a string is escaped, so the pattern cannot occur there.
    """
    if not line.startswith(b'{"id":"'):
        return None
    a = line.find(b'"' + key + b'":"')
    if a < 0:
        return None
    a += len(key) + 4
    b = line.find(b'"', a)
    if b < 0 or line.find(b"\\", a, b) >= 0:
        return None
    return utf8_clean(line[a:b])


def field(line, key):
    """The string `key` (bytes) of a line (bytes), "" if there is none."""
    text = peek(line, key)
    if text is None:
        item = from_line(line)
        text = item[key.decode()] if item else ""
    return text


def _number(value, most):
    # A host tool may have written 1760000077.0 or 1.76e9 (B50).
    if value is True or not isinstance(value, (int, float)):
        return 0
    try:
        value = int(value)
    except (ValueError, OverflowError):
        return 0
    if value < 0:
        return 0
    return value if value <= most else (most if most == 65535 else 0)


def _text(value, limit):
    return cut(value, limit) if isinstance(value, str) else ""


def mend(text):
    """`text` without broken characters at its end: the reference cuts inside one."""
    while text and text.endswith("\ufffd"):
        text = text[:-1]
    return text


def from_line(line):
    """The item in `line` (bytes-like), or None if there is none. Never raises.

    Keys count whatever their case, unknown ones are ignored, missing ones are empty (SPEC-longterm
    §5).
    """
    try:
        data = json_loads(utf8_clean(line).encode())
    except (ValueError, RuntimeError):
        return None
    if not isinstance(data, dict):
        return None
    if "id" not in data or "content" not in data:
        data = {key.lower(): value for key, value in data.items()}
    item = {}
    for key, limit in (
        ("id", ID),
        ("source", SOURCE),
        ("content", CONTENT),
        ("tags", TAGS),
        ("keywords", KEYWORDS),
    ):
        item[key] = _text(data.get(key), limit)
    if not item["id"]:
        return None
    for key in ("created_at", "updated_at"):
        item[key] = _number(data.get(key), 0xFFFFFFFF)
    item["access_count"] = _number(data.get("access_count"), 65535)
    item["deleted"] = data.get("deleted") is True
    ids = data.get("summary_ids")
    item["summary_ids"] = [_number(i, 65535) for i in ids[:3]] if isinstance(ids, list) else []
    item["pinned"] = data.get("pinned") is True
    return item
