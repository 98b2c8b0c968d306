"""`memory_index.json`: label ids and the keyword index (spec/SPEC-longterm.md §5).

Owns: its meaning, and whether it agrees with the records. Only two of its numbers are nowhere
else: the next label id and how far the digest is counted into the records; the rest is made anew
from the records, so that being behind them is no fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from upyclaw_host.formats.findings import Report
from upyclaw_host.formats.jsontext import parse
from upyclaw_host.formats.memory_items import Item

_TERM = 47  # bytes of an index term


@dataclass(frozen=True)
class Label:
    """A summary label with its id and the number of memories that carry it."""

    id: int
    label: str
    refs: int


@dataclass
class MemoryIndex:
    """The index. `next_id` is 0 and `mark` -1 where the file does not tell."""

    version: int | None = None
    next_id: int = 0
    mark: int = -1
    labels: list[Label] = field(default_factory=list)
    keywords: dict[str, list[str]] = field(default_factory=dict)


def _count(value: Any) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return int(value) if good else -1


def parse_index(raw: bytes, path: str) -> tuple[MemoryIndex | None, Report]:
    """The index, None if the file is no JSON object. Never raises."""
    report = Report(path)
    parsed = parse(raw)
    if not parsed.ok or not isinstance(parsed.value, dict):
        why = parsed.problems[-1] if not parsed.ok else None
        text = f" ({why.message})" if why is not None else ""
        at = why.at if why is not None else 0
        report.error("index-damaged", at, f"no JSON object{text}; a board makes a new one")
        return None, report
    for problem in parsed.problems:
        report.warning(problem.code, min(problem.at, len(raw)), problem.message)
    value = parsed.value
    index = MemoryIndex(
        next_id=max(0, _count(value.get("next_summary_id"))),
        mark=_count(value.get("last_compact_digest_size")),
    )
    version = _count(value.get("version"))
    index.version = version if version >= 0 else None
    if version != 3:
        report.info("index-version", None, f"version {value.get('version')!r}, not 3")
    for key, number in (("next_summary_id", index.next_id - 1), ("last_compact_digest_size", 0)):
        if key not in value or _count(value[key]) < 0 or number < 0:
            report.warning("index-number", None, f"{key} is missing or no usable number")
    _read_labels(value.get("summaries"), index, report)
    _read_keywords(value.get("keyword_index"), index, report)
    return index, report


def _read_labels(value: Any, index: MemoryIndex, report: Report) -> None:
    if not isinstance(value, list):
        report.warning("index-labels", None, "summaries is no list")
        return
    for one in value:
        label = one.get("label") if isinstance(one, dict) else None
        if not isinstance(label, str) or not label:
            report.warning("index-labels", None, "an entry of summaries without label is dropped")
            continue
        number = _count(one.get("summary_id"))
        if number < 1:
            report.warning("index-labels", None, f"label {label} has no usable id")
            continue
        index.labels.append(Label(number, label, max(0, _count(one.get("ref_count")))))
    for what, counts in (
        ("id", Counter(str(one.id) for one in index.labels)),
        ("label", Counter(one.label for one in index.labels)),
    ):
        for name, times in counts.items():
            if times > 1:
                text = f"label {what} {name} stands {times} times in summaries"
                report.warning("index-labels", None, text)
    highest = max((one.id for one in index.labels), default=0)
    if 0 < index.next_id <= highest:
        text = f"next_summary_id is {index.next_id}, but label id {highest} is in use"
        report.warning("index-next-id", None, text)


def _read_keywords(value: Any, index: MemoryIndex, report: Report) -> None:
    if not isinstance(value, dict):
        report.warning("index-keywords", None, "keyword_index is no object")
        return
    for term, ids in value.items():
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            report.warning("index-keywords", None, f"term {term} leads to no list of ids")
            continue
        index.keywords[term] = ids


def _lower(text: str) -> str:
    """Small ASCII letters; others stay, as the reference looks terms up."""
    return text.encode().lower().decode()


def keyword_index(items: Sequence[Item]) -> dict[str, list[str]]:
    """What the keyword index of these items is, under small letters."""
    found: dict[str, list[str]] = {}
    for item in items:
        for term in item.index_terms[:3]:
            cut = term.encode()[:_TERM].decode("utf-8", "ignore")
            found.setdefault(_lower(cut), []).append(item.id)
    return found


def check_index(
    index: MemoryIndex, items: Sequence[Item], digest_size: int | None, report: Report
) -> None:
    """Tell where the index differs from the records it is made of."""
    used = max((number for item in items for number in item.summary_ids), default=0)
    if 0 < index.next_id <= used:
        # The index lags behind the records until the board is idle.
        text = f"next_summary_id is {index.next_id}, but a record names label id {used}"
        report.info("index-behind", None, text + "; the board makes it anew")
    if digest_size is not None and index.mark > digest_size:
        text = (
            f"last_compact_digest_size is {index.mark:,}, but the digest has {digest_size:,} bytes"
        )
        report.warning("index-mark", None, text)
    wanted = Counter(label for item in items for label in item.labels)
    given = {one.label: one.refs for one in index.labels}
    wrong = sorted(name for name in {*wanted, *given} if wanted[name] != given.get(name, 0))
    if wrong:
        names = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        text = f"labels are not those of the records ({names}); the board makes them anew"
        report.info("index-behind", None, text)
    terms: dict[str, list[str]] = {}
    for term, ids in index.keywords.items():
        terms.setdefault(_lower(term), []).extend(ids)
    made = keyword_index(items)
    wrong = sorted(term for term in {*terms, *made} if terms.get(term) != made.get(term))
    if wrong:
        text = f"{len(wrong)} terms lead elsewhere than the records say; the board makes them anew"
        report.info("index-behind", None, text)
