"""One long-term item as a line of memory_records.jsonl: writing it (SPEC-longterm §1, §2).

Owns: normalisation of tags and keywords, and the form of a line. Must not know about files or the
index.
"""

from ..compat import const
from .cuts import clean, cut
from .record import ID, KEYWORDS, TAGS, split_terms

# A reference reader takes lines of at most 1,023 bytes, line end included.
LINE = const(1022)


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
