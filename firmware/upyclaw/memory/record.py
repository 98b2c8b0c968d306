"""One long-term item as a line of memory_records.jsonl (SPEC-longterm §1, §2, §5).

Owns: field limits, normalisation of tags and keywords, labels, reading and writing a line.
Must not know about files or the index. An item is a dict with the keys of the line.
"""

from ..compat import const, json_loads, utf8_clean
from .text import clean, cut

CONTENT = const(255)
TAGS = const(95)
KEYWORDS = const(127)
SOURCE = const(15)
ID = const(39)
# A reference reader takes lines of at most 1,023 bytes, line end included.
LINE = const(1022)
# What our own reader still takes: a reference item whose escapes made it longer than that.
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


def _join(terms, limit):
    out: list[str] = []
    size = -1
    for term in terms:
        if term in out:
            continue
        size += len(term.encode()) + 1
        if size > limit or len(out) == 3:
            break
        out.append(term)
    return ",".join(out)


def normal_tags(tags):
    """`tags` (comma text) with at most 3 different terms in 95 bytes."""
    return _join(split_terms(cut(clean(tags), TAGS)), TAGS)


def normal_keywords(keywords, content, tags):
    """At most 3 terms that occur in `content` or `tags`, filled up with the tags, in 127 bytes."""
    # bytes.lower knows ASCII only, on both runtimes.
    lower = (content + "\n" + tags).encode().lower()
    terms = []
    for term in split_terms(cut(clean(keywords), KEYWORDS)):
        if term.encode().lower() in lower:
            terms.append(term)
    return _join(terms + split_terms(tags), KEYWORDS)


def normal_id(text):
    """A usable id from what a caller gave, or "" (then the store makes one)."""
    text = clean(text).replace("`", "").replace("\t", "")
    return cut(text, ID)


def labels_of(tags):
    """Summary labels of an item: the first 8 characters of each tag, each once, at most 3."""
    out: list[str] = []
    for term in split_terms(tags):
        label = term[:8]
        if label not in out and len(out) < 3:
            out.append(label)
    return out


def quote(text):
    """`text` as a JSON string (str): UTF-8 raw, control characters as blanks."""
    text = clean(text) if text else ""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if '"' in text:
        text = text.replace('"', '\\"')
    return '"' + text + '"'


def _line(item, compacted):
    ids = item["summary_ids"]
    return (
        '{"id":%s,"source":%s,"content":%s,"tags":%s,"keywords":%s,"created_at":%d,"updated_at":%d,'
        '"access_count":%d,"deleted":%s,"summary_ids":[%s]%s%s}'
        % (
            quote(item["id"]),
            quote(item["source"]),
            quote(item["content"]),
            quote(item["tags"]),
            quote(item["keywords"]),
            item["created_at"],
            item["updated_at"],
            item["access_count"],
            "true" if item["deleted"] else "false",
            ",".join([str(i) for i in ids]),
            ',"summary_labels":[]' if compacted else "",
            ',"pinned":true' if item.get("pinned") else "",
        )
    ).encode()


def fit(item):
    """Shorten the content of `item` until its line fits a reference reader with any counts."""
    while True:
        # 64 bytes: summary_labels, pinned, and digits that counts and label ids may still gain.
        over = len(_line(item, False)) + 64 - LINE
        if over <= 0 or not item["content"]:
            return item
        room = len(item["content"].encode())
        item["content"] = cut(item["content"], room - max(1, over // 6)).strip(" ")


def to_line(item, compacted=False):
    """`item` as bytes of one line without LF; the compacted form is that of the reference."""
    return _line(item, compacted)


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
    while text and text[-1] == "\ufffd":
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


def tombstone(id, now):
    """The line that ends the item `id`: nothing of its text."""
    return _line(
        {
            "id": id,
            "source": "",
            "content": "",
            "tags": "",
            "keywords": "",
            "created_at": 0,
            "updated_at": now,
            "access_count": 0,
            "deleted": True,
            "summary_ids": [],
        },
        False,
    )
