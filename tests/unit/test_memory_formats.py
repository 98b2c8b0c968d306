"""The witness of memory folders: golden folders of the reference, each kind of damage, fuzz."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from unit.formats_help import DATA, SHARED, shared
from upyclaw_host.formats.findings import Severity
from upyclaw_host.formats.memory import FILES, Memory, load_memory, read_memory
from upyclaw_host.formats.memory_items import Item, parse_records
from upyclaw_host.source import DirectorySource

_COPY = DATA / "golden_memory"
_LISTS: dict[str, list[dict[str, Any]]] = json.loads((_COPY / "lists.json").read_text())
_NOW = 1700001000


def _folders() -> list[str]:
    """All golden folders there are: those of the repository and, if they are here, the rest."""
    found: set[str] = set()
    for base in (_COPY, SHARED / "golden" / "longterm"):
        found |= {
            path.parent.relative_to(base).as_posix()
            for path in base.glob("*/*/memory_records.jsonl")
        }
    return sorted(found)


_ALL = _folders()


def golden(name: str) -> Memory:
    own = _COPY / name
    path = own if own.exists() else shared("golden", "longterm", *name.split("/"))
    memory = load_memory(DirectorySource(path))
    assert memory is not None
    return memory


def _listed(items: list[Item]) -> list[dict[str, Any]]:
    """Items in the order and form of the reference's list."""
    order = sorted(items, key=lambda i: (-i.access_count, -i.updated_at, i.id.encode()))
    keys = ("id", "source", "content", "tags", "keywords")
    numbers = ("created_at", "updated_at", "access_count")
    return [
        {key: getattr(item, key) for key in (*keys, *numbers)}
        | {"summary_labels": list(item.labels)}
        for item in order
    ]


def codes(memory: Memory) -> set[str]:
    return {finding.code for finding in memory.findings if finding.is_fault}


def test_the_golden_folders_are_there():
    assert len(_ALL) >= 14


# The reference cannot read its own long line again, wraps numbers and cuts inside characters
# (spec/WEAKNESSES.md 9, SPEC-longterm §5): there the witness knows better.
_BETTER = ("r_replay_rules/before", "r_replay_rules/after_compact", "w_long_line_unreadable/after")


@pytest.mark.parametrize("name", [name for name in _LISTS if name not in _BETTER])
def test_items_are_those_the_reference_lists(name):
    memory = golden(name)
    # The reference counts recalls at compaction only: the records alone are what it lists.
    want = [{**one, "summary_labels": _labels(one)} for one in _LISTS[name]]
    assert _listed(memory.records.items) == want


def _labels(one: dict[str, Any]) -> list[str]:
    """Labels of a listed item: those of its tags (the list leaves out dropped ones)."""
    tags = [tag.strip() for tag in one["tags"].split(",") if tag.strip()]
    return list(dict.fromkeys(tag[:8] for tag in tags))[:3]


def test_where_the_witness_knows_better():
    memory = golden("r_replay_rules/before")
    ours = {item.id: item for item in memory.records.items}
    theirs = {one["id"]: one for one in _LISTS["r_replay_rules/before"]}
    assert ours.keys() - theirs.keys() == {"f"} and not theirs.keys() - ours.keys()
    for name, one in theirs.items():
        assert ours[name].content == one["content"]
        if name != "i":
            assert ours[name].updated_at == one["updated_at"]
    # 70,000 accesses and times that cannot be: no wrapped numbers.
    assert (ours["i"].access_count, ours["i"].created_at, ours["i"].updated_at) == (65535, 0, 0)
    # Position of the first line, text of the last.
    assert [item.id for item in memory.items][:2] == ["a", "b"] and ours["a"].content == "second a"
    found = {(f.code, f.record) for f in memory.findings if f.is_fault}
    assert {("not-json", 3), ("no-id", 7), ("line-long-reference", 10), ("no-record", 13)} <= found
    glued = golden("r_replay_rules/after_store")
    assert {"z", "mem-1700000000-0001"} <= {item.id for item in glued.items}
    assert "glued" in codes(glued)
    (long,) = golden("w_long_line_unreadable/after").items
    assert len(long.content) > 100


@pytest.mark.parametrize("name", _ALL)
def test_markdown_and_index_of_the_reference_agree_with_its_records(name):
    memory = golden(name)
    told = {finding.code for finding in memory.findings}
    if told & {"markdown-behind", "markdown-forgotten", "index-damaged", "torn-tail"}:
        assert name in {
            "h_store_recall_update_forget/step15_store_same_id_overwrites",
            "l_evict_140/before",
            "r_replay_rules/before",
            "r_replay_rules/after_store",
            "w_compaction_truncates/after",
            "w_corrupt_index/after",
            "w_corrupt_index/before",
            "w_long_line_unreadable/after",
        }
        return
    order = _listed(memory.records.items)
    assert [one.id for one in memory.shown] == [one["id"] for one in order]
    assert [one.access for one in memory.shown] == [one["access_count"] for one in order]
    times = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(one["updated_at"])) for one in order]
    if name not in ("w_clock_jump/after", "r_replay_rules/after_compact"):
        assert [one.time for one in memory.shown] == times
    assert "index-behind" not in told


@pytest.mark.parametrize("name", _ALL)
def test_findings_of_the_golden_folders(name):
    faults = {
        "r_replay_rules/before": {
            "not-json",
            "no-id",
            "field-long",
            "line-long-reference",
            "label-ids",
            "no-record",
            "flag",
            "number",
            "line-end-missing",
        },
        "w_compaction_truncates/after": {"torn-tail"},
        "w_corrupt_index/before": {"index-damaged"},
        "w_corrupt_index/after": {"index-damaged", "markdown-forgotten"},
        "w_long_line_unreadable/after": {"line-long-reference"},
    }
    faults["r_replay_rules/after_store"] = {
        *faults["r_replay_rules/before"] - {"line-end-missing"},
        "glued",
    }
    assert codes(golden(name)) == faults.get(name, set())


def test_accesses_of_the_digest_are_counted():
    memory = golden("h_store_recall_update_forget/step08_recall_more")
    assert [(i.id[-4:], i.access_count, i.updated_at) for i in memory.by_heat(_NOW)] == [
        ("0002", 4, 1700000400),
        ("0003", 3, 1700000400),
        ("0004", 3, 1700000400),
        ("0001", 2, 1700000400),
    ]
    # After the compaction the records hold them: not counted twice.
    after = golden("h_store_recall_update_forget/step09_store5_compacts")
    assert [i.access_count for i in after.by_heat(_NOW)] == [4, 3, 3, 2, 0]


def test_history_follows_the_ids_of_the_reference():
    memory = golden("h_store_recall_update_forget/step13_forget")
    told = [(e.action, e.id[-4:]) for e in memory.history("mem-1700000700-0007")]
    assert told[0] == ("store", "0003") and ("recall", "0003") in told
    assert told[-2:] == [("forget", "0003"), ("update", "0007")]


def test_scores_are_those_of_the_reference():
    memory = golden("l_evict_140/before")
    told = json.loads(shared("golden", "longterm", "l_evict_140", "evicted.json").read_text())
    scores = memory.scores(1700000000)
    assert len(told["evicted"]) == 12
    for one in told["evicted"]:
        assert scores[one["id"]] == one["score"]
    out = sorted(scores.values())[:12]
    assert sorted(one["score"] for one in told["evicted"]) == out
    after = {item.id for item in golden("l_evict_140/after").items}
    assert scores.keys() - after == {one["id"] for one in told["evicted"]}


# -- damage, one kind each


def line(name: str, content: str = "User likes tea", **more: Any) -> bytes:
    item = {
        "id": name,
        "source": "manual",
        "content": content,
        "tags": "tea",
        "keywords": "tea",
        "created_at": 1700000000,
        "updated_at": 1700000000,
        "access_count": 0,
        "deleted": False,
        "summary_ids": [1],
        **more,
    }
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


INDEX = (
    b'{"version":3,"next_summary_id":2,"last_compact_digest_size":0,"summaries":'
    b'[{"summary_id":1,"label":"tea","ref_count":1}],"keyword_index":{"tea":["a"]}}'
)
MARKDOWN = (
    b"# Long-term Memory\n\n## Summary Labels\n\n- tea (refs=1)\n\n## Active Memories\n\n"
    b'- `a` User likes tea\n  time=2023-11-14 22:13:20 access=0 labels=["tea"]\n'
)
GOOD = {
    "memory_records.jsonl": line("a"),
    "memory_index.json": INDEX,
    "MEMORY.md": MARKDOWN,
    "memory_digest.log": b"1700000000\tstore\ta\n",
}


def test_a_good_folder_has_no_findings():
    memory = read_memory(GOOD)
    assert not memory.findings and [item.id for item in memory.items] == ["a"]


_FULL = line("a") + line("b", "User likes coffee")


@pytest.mark.parametrize(
    ("name", "data", "code", "offset", "ids"),
    [
        ("memory_records.jsonl", line("a") + line("b")[:40], "torn-tail", len(line("a")), "a"),
        ("memory_records.jsonl", _FULL[:-1], "line-end-missing", len(_FULL) - 1, "ab"),
        ("memory_records.jsonl", line("b")[:-1] + line("a"), "glued", 0, "ba"),
        ("memory_records.jsonl", b"{oops\n" + line("a"), "not-json", 1, "a"),
        ("memory_records.jsonl", line("a") + b"[1]\n", "no-record", len(line("a")), "a"),
        ("memory_records.jsonl", line("a") + b'{"id":7}\n', "no-id", len(line("a")), "a"),
        ("memory_records.jsonl", line("a", access_count=1.5), "number", 0, "a"),
        ("memory_records.jsonl", line("a", updated_at=-1), "number", 0, "a"),
        ("memory_records.jsonl", line("a", created_at="x"), "number", 0, "a"),
        ("memory_records.jsonl", line("a", content=["x"]), "field-type", 0, "a"),
        ("memory_records.jsonl", line("a", deleted=1), "flag", 0, "a"),
        ("memory_records.jsonl", line("a", summary_ids=[0]), "label-ids", 0, "a"),
        ("memory_records.jsonl", line("a", content="x" * 256), "field-long", 0, "a"),
        ("memory_records.jsonl", line("a", content=""), "empty", 0, "a"),
        ("memory_records.jsonl", line("a").replace(b"tea", b"\xe8\x8c", 1), "not-utf8", 50, "a"),
        ("memory_records.jsonl", line("a") + b"x" * 4000, "line-long", len(line("a")), "a"),
        ("memory_index.json", INDEX[:-2], "index-damaged", len(INDEX) - 2, "a"),
        ("memory_index.json", b"[]", "index-damaged", 0, "a"),
        ("memory_index.json", INDEX.replace(b'id":2', b'id":1'), "index-next-id", None, "a"),
        ("memory_index.json", INDEX.replace(b'size":0', b'size":99'), "index-mark", None, "a"),
        ("memory_index.json", INDEX.replace(b'size":0', b'size":-1'), "index-number", None, "a"),
        ("memory_index.json", INDEX.replace(b"label", b"lapel"), "index-labels", None, "a"),
        ("memory_index.json", INDEX.replace(b'["a"]', b"7"), "index-keywords", None, "a"),
        ("memory_digest.log", b"1700000000\tstore\ta\nhm\n", "digest-line", 19, "a"),
        ("memory_digest.log", b"1700000000\tstore\ta\n17", "digest-torn", 19, "a"),
        (
            "memory_digest.log",
            b"1700000000\tstore\ta\n1700000000\tforget\tb\n",
            None,
            None,
            "a",
        ),
    ],
)
def test_each_kind_of_damage_is_told_with_its_place(name, data, code, offset, ids):
    memory = read_memory({**GOOD, name: data})
    found = {(f.code, f.offset) for f in memory.findings if f.is_fault and f.file == name}
    assert ((code, offset) in found) if code else not found
    assert [item.id for item in memory.items] == list(ids)


def test_profile_files_are_checked():
    good = {**GOOD, "user.md": "я\n".encode() * 500, "soul.md": b""}
    assert not read_memory(good).findings
    memory = read_memory({**good, "soul.md": b"x" * 1502, "identity.md": b"ok \xff"})
    found = {(f.file, f.code, f.offset) for f in memory.findings if f.is_fault}
    assert found == {("soul.md", "profile-long", 1500), ("identity.md", "not-utf8", 3)}


def test_markdown_that_shows_a_forgotten_memory_is_a_fault():
    parts = {**GOOD, "memory_records.jsonl": line("a") + line("a", "", deleted=True)}
    memory = read_memory(parts)
    assert not memory.items and "markdown-forgotten" in codes(memory)
    # Known from the digest alone, when the records were compacted.
    parts = {**GOOD, "memory_records.jsonl": line("b")}
    parts["memory_digest.log"] = b"1700000000\tforget\ta\n"
    assert "markdown-forgotten" in codes(read_memory(parts))
    # Never stored here: only behind.
    parts["memory_digest.log"] = b""
    memory = read_memory(parts)
    assert not codes(memory) and "markdown-behind" in {f.code for f in memory.findings}


def test_missing_files_are_told():
    memory = read_memory({"MEMORY.md": MARKDOWN})
    assert "records-missing" in codes(memory)
    assert not codes(read_memory({"memory_records.jsonl": line("a")}))
    assert not codes(read_memory({"memory_digest.log": b""}))


def test_clocks_that_cannot_be_neither_doom_nor_crown():
    rows = [
        line("old", updated_at=100),
        line("good", updated_at=1700000000),
        line("ahead", updated_at=4000000000),
        line("late", updated_at=1700009000),
    ]
    memory = read_memory({"memory_records.jsonl": b"".join(rows)})
    scores = memory.scores(1700010000)
    assert scores["old"] == scores["good"] == scores["ahead"] == 1700000000 // 3600
    assert [item.id for item in memory.by_heat(1700010000)] == ["late", "ahead", "good", "old"]


def test_counts_follow_the_marks_of_the_digest():
    events = [
        b"1700000100\trecall\ta\taccess_count+1\n",
        b"1700000200\tcompact\t-\trebuild=index+markdown\n",
        b"1700000300\trecall\ta\taccess_count+1\n",
        b"1700000400\tupdate\ta\n",
        b"1700000500\trecall\ta\taccess_count+1\n",
        b"1700000600\trefresh\ta\n",
    ]
    parts = {"memory_records.jsonl": line("a", access_count=5)}
    for count, want in ((1, (6, 1700000100)), (2, (5, 1700000000)), (3, (6, 1700000300))):
        (item,) = read_memory({**parts, "memory_digest.log": b"".join(events[:count])}).items
        assert (item.access_count, item.updated_at) == want
    (item,) = read_memory({**parts, "memory_digest.log": b"".join(events)}).items
    assert (item.access_count, item.updated_at) == (6, 1700000600)


def test_fuzz_reading_never_raises_and_names_places_in_the_file():
    random.seed(4)
    folders = [golden(name).files for name in _ALL if not name.startswith("l_")]
    for turn in range(1500):
        parts = dict(random.choice(folders))
        name = random.choice(FILES)
        data = bytearray(parts.get(name, b""))
        for _ in range(random.randint(1, 6)):
            at = random.randint(0, len(data))
            match random.randint(0, 4):
                case 0:
                    del data[at : at + random.randint(1, 60)]
                case 1:
                    data[at:at] = random.randbytes(random.randint(1, 20))
                case 2:
                    data[at:at] = random.choice(
                        (b"\n", b"{", b"}", b'"', b"\t", b"\x00", b"\xed\xa0\xbd", b"[" * 3000)
                    )
                case 3:
                    data[at : at + 8] = random.choice((b"null", b"1e999", b"-1", b"true", b"NaN"))
                case 4:
                    del data[at:]
        parts[name] = bytes(data)
        memory = read_memory(parts)
        for finding in memory.findings:
            size = len(parts.get(finding.file, b""))
            assert finding.offset is None or 0 <= finding.offset <= size, (turn, finding)
            assert finding.severity in Severity and finding.message
        memory.by_heat(_NOW)
        for item in memory.items:
            memory.history(item.id)
            assert len(item.content.encode()) <= 255


def test_random_bytes_are_no_memory():
    random.seed(5)
    for _ in range(300):
        records, _report = parse_records(random.randbytes(random.randint(0, 900)), "x")
        assert not records.items


def test_a_source_is_searched_for_its_memory(tmp_path: Path):
    assert load_memory(DirectorySource(tmp_path)) is None
    for folder in ("", "memory", "data/memory"):
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "memory_records.jsonl").write_bytes(line(f"in-{folder.replace('/', '-')}"))
        memory = load_memory(DirectorySource(tmp_path))
        assert memory is not None and memory.folder == folder
    (place / "memory_records.jsonl.bad").write_bytes(b"x")
    memory = load_memory(DirectorySource(tmp_path))
    assert memory is not None
    assert [f.code for f in memory.findings if f.file.endswith(".bad")] == ["side-file"]
