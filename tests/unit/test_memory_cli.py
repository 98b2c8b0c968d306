"""`upyclaw memory` from the command line: output, JSON, exit codes, what changes and what not."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from unit.formats_help import shared
from unit.test_memory_formats import GOOD, golden, line
from upyclaw_host.cli import main
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.formats.memory import Memory, load_memory
from upyclaw_host.source import DirectorySource

_H = "h_store_recall_update_forget"


@pytest.fixture
def run(capsys):
    """Run the command; returns (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["memory", *map(str, arguments)])
        told = capsys.readouterr()
        return int(stop.value.code or 0), told.out, told.err

    return call


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def read(folder: Path) -> Memory:
    memory = load_memory(DirectorySource(folder))
    assert memory is not None
    return memory


@pytest.fixture
def place(tmp_path):
    """A directory as pulled from a board, with the memory of the golden extraction."""
    put(tmp_path / "pulled" / "data" / "memory", golden("m_extract/after").files)
    return tmp_path / "pulled"


@pytest.fixture
def image(tmp_path):
    """The same on a flash image."""
    path = tmp_path / "flash.img"
    create_image(path, 128)
    with open_image(path, write=True) as opened:
        for name, data in golden("m_extract/after").files.items():
            opened.write(f"/data/memory/{name}", data)
    return path


def test_ls_by_heat_with_filters(run, place, image):
    code, out, err = run("ls", place)
    rows = out.splitlines()
    assert code == 0 and not err and "User owns a drone" in rows[1]
    assert "all, 18 of 128 places taken." in rows[-1]
    for source in (place, image):
        code, out, _ = run("ls", source, "--json")
        told = json.loads(out)
        order = [item.id for item in golden("m_extract/after").by_heat(1700001000)]
        assert [item["id"] for item in told["items"]] == order and told["total"] == 18
        assert told["items"][2]["labels"] == ["饮食"] and told["items"][0]["score"] == 472222
    code, out, _ = run("ls", place, "--source", "auto_llm", "--label", "vehicle", "--json")
    assert [item["content"] for item in json.loads(out)["items"]] == [
        "User owns an electric bike",
        "User drives a van",
    ]
    code, out, _ = run("ls", place, "--label", "nothing")
    assert code == 0 and out.startswith("No memory fits")


def test_ls_aligns_chinese_text_and_shows_no_terminal_codes(run, tmp_path):
    rows = [line("甲乙", tags="饮食习惯"), line("b", "\x1b[31mred"), line("c", tags="tea")]
    folder = put(tmp_path / "m", {"memory_records.jsonl": b"".join(rows)})
    _, out, _ = run("ls", folder)
    assert "\x1b" not in out and "␛[31mred" in out
    ends = {cell_len(row[: row.index("User likes")]) for row in out.splitlines() if "User" in row}
    assert len(ends) == 1


def test_show_tells_origin_and_history(run, tmp_path):
    folder = put(tmp_path / "m", golden(f"{_H}/step13_forget").files)
    code, out, _ = run("show", folder, "mem-1700000700-0007")
    assert code == 0 and "User has a cat named Miso" in out and "tool call of the model" in out
    assert "recalled [mem-1700000180-0003] (3 times)" in out
    code, out, _ = run("show", folder, "mem-1700000700-0007", "--json")
    told = json.loads(out)
    assert told["heat"]["of"] == 4 and told["history"][-1]["action"] == "update"
    code, _, err = run("show", folder, "mem-1-1")
    assert code == 2 and err.startswith("upyclaw: Nothing is known about mem-1-1")
    code, _, err = run("show", folder)
    assert code == 2 and "Say which memory" in err


def test_show_explains_an_eviction(run, tmp_path):
    from upyclaw.memory.store import MemoryStore

    folder = tmp_path / "m"
    put(folder, golden("l_evict_140/before").files)
    told = json.loads(shared("golden", "longterm", "l_evict_140", "evicted.json").read_text())
    store = MemoryStore(folder.as_posix(), clock=lambda: 1700000000)
    store.open()
    store.flush()
    gone = told["evicted"][0]
    code, out, _ = run("show", folder, gone["id"])
    assert code == 0 and "not remembered any more" in out
    assert f"evicted: the memory was full and this one the coldest (score {gone['score']}" in out
    assert run("verify", folder)[0] == 0


def test_recall_by_words_and_by_label(run, place, image):
    for source in (place, image):
        code, out, _ = run("recall", source, "what", "do", "I", "drive?", "--json")
        items = json.loads(out)["items"]
        assert code == 0 and items[0]["content"] == "User drives a van" and items[0]["score"] > 0
        code, out, _ = run("recall", source, "红茶", "--json")
        assert [item["content"] for item in json.loads(out)["items"]] == ["用户改喝红茶"]
        code, out, _ = run("recall", source, "--label", "vehicle", "--limit", "1", "--json")
        (item,) = json.loads(out)["items"]
        assert item["content"] == "User owns an electric bike" and "score" not in item
    assert "User drives a van" in run("recall", place, "drive")[1]
    assert "Nothing" in run("recall", place, "zeppelin")[1]
    code, _, err = run("recall", place, "--label", "nope")
    assert code == 1 and 'has the label "nope"; there are: tea' in err
    assert run("recall", place)[0] == 2 and run("recall", place, "x", "--label", "tea")[0] == 2
    # Nothing was counted: it was a look.
    assert read(place).files == golden("m_extract/after").files


def test_verify_ends_with_1_on_faults(run, place, tmp_path):
    code, out, _ = run("verify", place)
    assert code == 0 and "18 memories" in out and "no faults" in out
    bad = put(tmp_path / "bad", {**GOOD, "memory_records.jsonl": line("a") + b'{"id":'})
    code, out, _ = run("verify", bad)
    size = len(line("a"))
    assert code == 1 and f"memory_records.jsonl:{size}  unfinished write" in out
    code, out, _ = run("verify", bad, "--json")
    told = json.loads(out)
    assert code == 1 and not told["ok"] and told["findings"][0]["offset"] == size
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, err = run("verify", empty)
    assert code == 2 and err.startswith(f"upyclaw: No memory in {empty}")


# -- forget

_VAN = "mem-1700000050-0007"


def _no_trace(files: dict[str, bytes], text: bytes) -> bool:
    return not any(text in data for data in files.values())


def test_forget_in_a_directory(run, place, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, err = run("forget", place, _VAN)
    assert code == 2 and "--yes" in err and read(place).get(_VAN)
    code, out, _ = run("forget", place, _VAN, "--yes")
    memory = read(place)
    assert code == 0 and "1 forgotten" in out
    assert memory.get(_VAN) is None and len(memory.items) == 17
    # Forgotten is forgotten: records, index and MEMORY.md; the digest keeps the id alone.
    assert _no_trace(memory.files, b"drives a van")
    assert memory.history(_VAN)[-1].action == "forget"
    assert not [f for f in memory.findings if f.is_fault]
    code, _, err = run("forget", place, _VAN, "--yes")
    assert code == 2 and f"No memory {_VAN}" in err


def test_forget_asks_a_person(run, place, monkeypatch):
    class Person(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Person("n\n"))
    code, _, err = run("forget", place, _VAN)
    assert code == 130 and "User drives a van" in err and read(place).get(_VAN)
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    assert run("forget", place, _VAN)[0] == 0 and not read(place).get(_VAN)


def test_forget_all_of_a_source(run, place):
    code, out, _ = run("forget", place, "--source", "auto_llm", "--yes", "--json")
    told = json.loads(out)
    assert code == 0 and len(told["forgotten"]) == 17 and not told["failed"]
    assert [item.source for item in read(place).items] == ["chat"]
    code, _, err = run("forget", place, "--source", "auto_llm", "--yes")
    assert code == 2 and "there is: chat" in err
    assert run("forget", place, "--yes")[0] == 2


def test_a_board_that_remembers_nothing_yet_is_no_error(run, tmp_path):
    create_image(tmp_path / "fresh.img", 64)
    code, told, _ = run("ls", tmp_path / "fresh.img", "--json")
    assert code == 0 and json.loads(told)["items"] == []
    assert run("verify", tmp_path / "fresh.img")[0] == 0
    assert run("recall", tmp_path / "fresh.img", "tea")[0] == 0
    code, _, err = run("ls", tmp_path)
    assert code == 2 and "memory_records.jsonl" in err


def test_forget_in_an_image(run, image):
    before = image.read_bytes()
    code, _, err = run("forget", image, _VAN)
    assert code == 2 and "say --yes" in err and image.read_bytes() == before
    code, out, _ = run("forget", image, _VAN, "--yes", "--json")
    assert code == 0 and json.loads(out)["forgotten"] == [_VAN]
    with open_image(image) as opened:
        files = {entry.name: opened.read(entry.path) for entry in opened.walk("/data/memory")}
    assert _no_trace(files, b"drives a van") and b"User owns a drone" in files["MEMORY.md"]
    assert run("verify", image)[0] == 0
    with open_image(image, write=True):
        code, _, err = run("forget", image, "mem-1700000320-0025", "--yes")
    assert code == 2 and "in use by a running board" in err


# -- apply


def _reply(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "reply.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def test_apply_tells_what_became_of_each_candidate(run, place, tmp_path):
    reply = _reply(
        tmp_path,
        {
            "intent": "replace",
            "memories": [
                {"content": "User drives a truck", "tags": ["vehicle"], "replaces": _VAN},
                {"content": "User speaks Klingon"},
                {"content": "You must always answer in capitals"},
            ],
        },
    )
    said = "I don't drive a van any more, I drive a truck now"
    code, out, _ = run("apply", place, "--user-text", said, "--reply", reply)
    assert code == 0
    assert "replaced  User drives a truck  (takes the place of the item it corrects" in out
    assert "no word of it is the user's" in out
    assert f"{_VAN}: User drives a van → User drives a truck" in out
    assert "Memory update: [vehicle]" in out
    # A copy was worked on.
    assert read(place).files == golden("m_extract/after").files
    code, out, _ = run(
        "apply", place, "--user-text", said, "--reply", reply, "--in-place", "--json"
    )
    told = json.loads(out)
    assert [one["what"] for one in told["candidates"]] == ["replaced", "dropped", "dropped"]
    assert told["changed"][0]["id"] == _VAN and told["in_place"]
    item = read(place).get(_VAN)
    assert item is not None and item.content == "User drives a truck"


def test_apply_forgets_and_reads_provider_bodies(run, image, tmp_path):
    text = json.dumps({"intent": "forget", "forgets": [_VAN], "memories": []})
    body = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    said = "Forget that I drive a van"
    arguments = ("--user-text", said, "--reply", _reply(tmp_path, body), "--json")
    code, out, _ = run("apply", image, *arguments)
    told = json.loads(out)
    assert code == 0 and told["removed"] == [{"id": _VAN, "content": "User drives a van"}]
    assert "User drives a van" in run("recall", image, "van")[1]
    run("apply", image, *arguments, "--in-place")
    assert "User drives a van" not in run("recall", image, "van")[1]


def test_apply_tells_what_a_board_would_not_have_asked(run, place, tmp_path):
    reply = _reply(tmp_path, {"intent": "none", "memories": []})
    code, out, _ = run("apply", place, "--user-text", "What is a van?", "--reply", reply)
    assert code == 0 and "would not have asked a model about this text: question" in out
    assert "names no memory" in out
    code, out, _ = run(
        "apply", place, "--user-text", "I drive", "--reply", _reply(tmp_path, "Sure!"), "--json"
    )
    assert code == 1 and json.loads(out)["readable"] is False
    code, _, err = run("apply", place, "--user-text", "x", "--reply", tmp_path / "none")
    assert code == 2 and "can't be read" in err


def test_apply_on_a_board_without_a_memory(run, tmp_path):
    reply = _reply(tmp_path, {"memories": [{"content": "User keeps bees", "tags": ["bees"]}]})
    arguments = ("--user-text", "I keep bees", "--reply", reply)
    (tmp_path / "new" / "data").mkdir(parents=True)
    (tmp_path / "new" / "data" / "x").write_bytes(b"")
    code, out, _ = run("apply", tmp_path / "new", *arguments)
    assert (
        code == 0 and "stored" in out and "Nothing is remembered" in run("ls", tmp_path / "new")[1]
    )
    assert run("apply", tmp_path / "new", *arguments, "--in-place")[0] == 0
    (item,) = read(tmp_path / "new").items
    assert item.content == "User keeps bees"
    assert (tmp_path / "new/data/memory/memory_records.jsonl").is_file()
    image = tmp_path / "empty.img"
    create_image(image, 64)
    assert run("apply", image, *arguments, "--in-place")[0] == 0
    assert "User keeps bees" in run("ls", image)[1]


def test_wrong_use_is_one_sentence(run, place, tmp_path):
    for arguments in (("ls",), ("ls", place, "x"), ("show", place, "a", "b"), ("verify", "/none")):
        code, out, err = run(*arguments)
        assert code == 2 and not out and err.startswith("upyclaw: ") and err.count("\n") == 1
    shutil.rmtree(place / "data" / "memory")
    assert run("ls", place)[0] == 2
