"""The board's memory under real MicroPython on real LittleFS against the PC.

Random lives of a memory (and golden and damaged folders) are played in one MicroPython process;
then the witness must see the same items in the same order, and the PC's recall and gates must
give the same answers.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest

from unit.on_micropython import micropython
from unit.test_memory_formats import _ALL, golden
from upyclaw_host import memory_work
from upyclaw_host.flash.image import create_image
from upyclaw_host.formats.memory import FILES, RECORDS, Memory, read_memory
from upyclaw_host.source import open_source

_SCRIPT = Path(__file__).with_name("mp_memory.py")
_DATA = Path(__file__).parents[2] / "host" / "upyclaw_host" / "bench" / "data" / "recall.json"
_NOW = 1796026877


def _base64(files: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(data).decode() for name, data in files.items()}


def script(
    steps: list[list[Any]] | None = None, files: dict[str, bytes] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "files": _base64(files or {}),
        "steps": steps or [],
        "queries": [],
        "replies": [],
        "now": _NOW,
        **more,
    }


def play(tmp_path: Path, scripts: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Memory]]:
    """(what the device told, the memory as the witness reads it) of each script."""
    image, todo = tmp_path / "flash.img", tmp_path / "scripts.json"
    image.unlink(missing_ok=True)
    create_image(image, 1024)
    todo.write_text(json.dumps(scripts, ensure_ascii=False), "utf-8")
    said = micropython(_SCRIPT, image, todo, heap="8M")
    assert "Traceback" not in said, said[said.index("Traceback") :]
    told = [json.loads(one) for one in said.splitlines()]
    assert len(told) == len(scripts)
    source = open_source(image)
    paths = source.files()
    memories = []
    for number in range(len(scripts)):
        folder = f"{number}/memory"
        parts = {n: source.read(f"{folder}/{n}") for n in FILES if f"{folder}/{n}" in paths}
        memories.append(read_memory(parts))
    return list(zip(told, memories, strict=True))


def compare(one: dict[str, Any], told: dict[str, Any], memory: Memory) -> None:
    """Items, order, labels, recall and gates are the same on the PC."""
    now = one["now"]
    seen = [
        [i.id, i.content, i.tags, i.keywords, i.source, i.created_at, i.updated_at]
        + [i.access_count, i.pinned]
        for i in memory.by_heat(now)
    ]
    assert seen == told["items"]
    counts = dict.fromkeys((label for item in memory.items for label in item.labels), 0)
    for item in memory.items:
        for label in item.labels:
            counts[label] += 1
    assert counts == dict(told["labels"])
    for query, found in zip(one["queries"], told["found"], strict=True):
        ours = memory_work.recall(memory, "the image", query, (), 8, now)
        assert [[item["id"], item["score"]] for item in ours] == found, query
    for (label, _), found in zip(told["labels"], told["by_label"], strict=True):
        ours = memory_work.recall(memory, "the image", "", (label,), 8, now)
        assert [item["id"] for item in ours] == found, label
    with memory_work.copied(memory) as folder:
        for (said, reply), gates in zip(one["replies"], told["gates"], strict=True):
            done = memory_work.apply(folder, "the image", said, reply)
            ours_too = [[c["what"], c["why"], c["content"]] for c in done.candidates]
            assert (ours_too if done.readable else None) == gates, said


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_DATA.read_text("utf-8"))
    return found


def test_recall_of_a_full_memory_is_the_same_on_board_and_pc(tmp_path, facts):
    steps: list[list[Any]] = []
    for number, fact in enumerate(facts["facts"]):
        steps.append(["store", fact["content"], fact["tags"], fact["keywords"]])
        if number % 9 == 0:
            steps += [["clock", _NOW - 100000 + 700 * number], ["search", fact["content"]]]
    queries = [one["question"] for one in facts["questions"]]
    one = script(steps, queries=queries[::3])
    ((told, memory),) = play(tmp_path, [one])
    assert len(memory.items) == 128 and sum(map(len, told["found"])) > 60
    assert not [f for f in memory.findings if f.is_fault]
    compare(one, told, memory)


_WORDS = (
    *("User", "likes", "tea", "coffee", "Mochi", "cat", "dog", "York", "Rust", "C++", "3.5"),
    *("kilometers", "night", "nurse", "garden", "用户", "喜欢", "喝", "红茶", "绿茶", "早上"),
    *("跑步", "五公里", "Straße", "кошка", "любит", "café", "№", "日本語", "コーヒー", "😀"),
    *("a/b", "\\", '"'),
)
_CLOCKS = (_NOW, _NOW - 86400 * 30, _NOW - 7200, 0, 946684900, _NOW + 86400 * 4000)


def _life(rnd: random.Random) -> dict[str, Any]:
    """A random life of a memory."""

    def words(most: int) -> str:
        return " ".join(rnd.choice(_WORDS) for _ in range(rnd.randint(1, most)))

    steps: list[list[Any]] = []
    for _ in range(rnd.randint(3, 40)):
        steps.append(
            rnd.choice(
                (
                    ["store", words(9), ",".join(words(2) for _ in range(3)), words(3)],
                    ["store", words(120), words(3), words(9)],
                    ["clock", rnd.choice(_CLOCKS)],
                    ["search", words(3)],
                    ["recall"],
                    ["update", rnd.randint(0, 99), words(7)],
                    ["forget", rnd.randint(0, 99)],
                    ["pin", rnd.randint(0, 99)],
                    ["flush"],
                )
            )
        )
    said = words(6)
    reply = {
        "intent": rnd.choice(("none", "replace", "forget")),
        "memories": [{"content": rnd.choice((said, words(5))), "tags": [words(1)]}] * 2,
    }
    return script(
        steps,
        queries=[words(4) for _ in range(6)],
        replies=[[said, json.dumps(reply, ensure_ascii=False)], [words(5), words(3)]],
        now=rnd.choice(_CLOCKS[:3]),
    )


def test_random_lives_look_the_same_on_board_and_pc(tmp_path):
    rnd = random.Random(11)
    scripts = [_life(rnd) for _ in range(25)]
    for one, (told, memory) in zip(scripts, play(tmp_path, scripts), strict=True):
        compare(one, told, memory)
        assert not [f for f in memory.findings if f.severity.value == "error"]


def test_golden_folders_look_the_same_on_board_and_pc(tmp_path):
    names = [name for name in _ALL if name != "l_evict_140/before"]
    scripts = [
        script(files=golden(name).files, queries=["user tea cat", "用户红茶"], now=1700001000)
        for name in names
    ]
    for name, one, (told, memory) in zip(names, scripts, play(tmp_path, scripts), strict=True):
        compare(one, told, memory)
        # The witness saw in the folder, before the board mended it, whatever the board took.
        before = {item.id: item for item in golden(name).items}
        for item in memory.items:
            # A line too long for a reference reader is shortened by the board.
            assert before[item.id].content.startswith(item.content)


def test_what_the_board_makes_of_damage_the_witness_saw_before(tmp_path):
    rnd = random.Random(12)
    scripts = []
    for _ in range(30):
        name = rnd.choice([n for n in _ALL if n.startswith(("h_", "m_", "w_"))])
        files = dict(golden(name).files)
        target = rnd.choice(FILES)
        data = bytearray(files.get(target, b""))
        for _ in range(rnd.randint(1, 4)):
            at = rnd.randint(0, len(data))
            data[at : at + rnd.randint(0, 9)] = rnd.choice(
                (b"", b"\x00\xff", b"\n", b'{"', b"\xe4")
            )
        files[target] = bytes(data)
        scripts.append(script(files=files, queries=["user"], now=1700001000))
    for one, (told, memory) in zip(scripts, play(tmp_path, scripts), strict=True):
        compare(one, told, memory)
        files = {name: base64.b64decode(data) for name, data in one["files"].items()}
        before = {item.id for item in read_memory(files).items}
        lines = files.get(RECORDS, b"").decode("utf-8", "replace").splitlines()
        for name, content, *_ in told["items"]:
            # MicroPython reads JSON with a colon or comma missing, and so keeps such a memory.
            assert name in before or any(name in line and content in line for line in lines)
