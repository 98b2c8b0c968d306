"""`session repair` and `session compact`: the device's code on a copy, told by the witness."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from unit.formats_help import b64, case, folder_pairs, pair_of, session_folder, shared, write_pair
from upyclaw_host.cli import main
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.formats.messages import history
from upyclaw_host.formats.names import chat_map_file_name, session_file_name

_USER = b'{"role":"user","content":"one"}'
_FINAL = b'{"role":"assistant","content":"eins"}'
_NAME = session_file_name("serial")


@pytest.fixture
def run(capsys):
    """Run `upyclaw session ...`; returns (exit code, JSON of stdout or None, stderr)."""

    def call(*arguments: object):
        with pytest.raises(SystemExit) as stop:
            main(["session", *map(str, arguments), "--json"])
        told = capsys.readouterr()
        return int(stop.value.code or 0), json.loads(told.out) if told.out else None, told.err

    return call


def _state(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _pair(folder: Path, data: bytes | None, idx: bytes | None, name: str = _NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if data is not None:
        (folder / name).write_bytes(data)
    if idx is not None:
        (folder / (name + ".idx")).write_bytes(idx)
    return folder


@pytest.mark.parametrize("one", case("B09"), ids=lambda one: one["name"])
def test_b09_is_mended_without_losing_a_record(run, tmp_path, one):
    data, idx = b64(one["input"]["data_b64"]), b64(one["input"]["idx_b64"])
    source = _pair(tmp_path / "in", data, idx)
    before = _state(source)
    code, told, _ = run("repair", source, "--out", tmp_path / "out")
    assert code == 0 and _state(source) == before
    (outcome,) = told["sessions"]
    assert outcome["dropped"] == []
    if one["expected"].get("read_only"):
        assert outcome["untouched"] and _state(tmp_path / "out") == before
        return
    pairs = folder_pairs(tmp_path / "out")
    if data:
        pair = pairs[_NAME]
        assert len(pair.records) >= one["expected"]["recoverable_records_at_least"]
        assert len(pair.index.entries) == len(pair.records)
    verified, _, _ = run("verify", tmp_path / "out")
    assert verified == 0


def test_damaged_bytes_are_set_aside_and_told(run, tmp_path):
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    stump = b'{"role":"user","conte'
    source = _pair(tmp_path / "in", data + stump, idx)
    _, told, _ = run("repair", source, "--out", tmp_path / "out")
    (outcome,) = told["sessions"]
    assert outcome["kept"] == 2 and outcome["dropped"] == []
    assert outcome["moved"] == {f"{_NAME}.bad": len(stump)}
    assert (tmp_path / "out" / f"{_NAME}.bad").read_bytes() == stump
    assert len(outcome["added"]) == 1 and outcome["notices"]


def test_an_unanswered_question_comes_into_the_data(run, tmp_path):
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    source = _pair(tmp_path / "in", data, idx)
    (source / f"{_NAME}.open").write_bytes(b"%d\n%s\n" % (len(data), _USER))
    _, told, _ = run("repair", source, "--out", tmp_path / "out")
    assert told["sessions"][0]["kept"] == 3
    assert len(folder_pairs(tmp_path / "out")[_NAME].records) == 3


def test_repair_refuses_a_directory_that_holds_something(run, tmp_path):
    source = _pair(tmp_path / "in", *write_pair([(1, 1, _USER)]))
    before = _state(source)
    code, told, err = run("repair", source, "--out", source)
    assert code == 2 and told is None and "is not empty" in err and _state(source) == before


def test_compact_gives_the_references_bytes(run, tmp_path):
    folder = shared("golden", "sessions", "d2_150KiB_plus_1_before", "after")
    wanted = shared("golden", "sessions", "d2_150KiB_plus_1_after", "after")
    before = _state(folder)
    code, told, _ = run("compact", folder, "--out", tmp_path / "out")
    assert code == 0 and _state(folder) == before
    for path in wanted.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    assert told["sessions"][0]["dropped"]


def test_compact_in_place_keeps_questions_and_answers(run, tmp_path):
    call = b'{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f"}}]}'
    result = b'[{"role":"tool","tool_call_id":"c","content":"r"}]'
    turn = [(1, 1, _USER), (3, 1, call), (4, 1, result), (2, 1, _FINAL)]
    source = _pair(tmp_path / "in", *write_pair(turn * 3))
    code, told, _ = run("compact", source, "--in-place")
    assert code == 0 and len(told["sessions"][0]["dropped"]) == 4
    expected = write_pair([turn[0], turn[3]] * 2 + turn)
    assert (source / _NAME).read_bytes() == expected[0]
    assert (source / f"{_NAME}.idx").read_bytes() == expected[1]
    assert history(folder_pairs(source)[_NAME].records) == history(pair_of(*expected).records)


def test_compact_in_place_in_an_image_changes_nothing_else(run, tmp_path):
    call = b'{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f"}}]}'
    result = b'[{"role":"tool","tool_call_id":"c","content":"r"}]'
    turn = [(1, 1, _USER), (3, 1, call), (4, 1, result), (2, 1, _FINAL)]
    data, idx = write_pair(turn * 3)
    place, image = f"/data/sessions/{_NAME}", tmp_path / "flash.img"
    create_image(image, 64)
    with open_image(image, write=True) as opened:
        for path, content in ((place, data), (place + ".idx", idx), ("/config.json", b"{}")):
            opened.write(path, content)
        opened.write(place + ".open", b"%d\n%s\n" % (len(data), _USER))
        # Somebody else writes: the image is refused, not changed.
        code, told, err = run("compact", image, "--in-place")
        assert code == 2 and told is None and "in use" in err
        assert opened.read(place) == data
    code, told, _ = run("compact", image, "--in-place")
    assert code == 0 and len(told["sessions"][0]["dropped"]) == 4
    # The waiting question came into the data; the newest tool turn before it is kept whole.
    expected = write_pair([turn[0], turn[3]] * 2 + turn + [turn[0]])
    with open_image(image) as opened:
        assert (opened.read(place), opened.read(place + ".idx")) == expected
        assert [entry.path for entry in opened.walk() if not entry.is_dir] == [
            "/config.json",
            place,
            place + ".idx",
        ]
    assert run("verify", image)[0] == 0


def test_a_place_without_sessions_is_not_called_fine(run, tmp_path):
    """A wrong directory must not look like one that was checked; a fresh board has none yet."""
    for command in (["ls"], ["verify"], ["repair", "--out", tmp_path / "out"]):
        code, told, err = run(command[0], tmp_path, *command[1:])
        assert code == 2 and told is None and "no file s_*.log in it" in err
    create_image(tmp_path / "flash.img", 64)
    code, told, _ = run("verify", tmp_path / "flash.img")
    assert code == 0 and told["sessions"] == []
    (tmp_path / "pulled").mkdir()
    (tmp_path / "pulled" / "backup.json").write_text("{}")
    assert run("ls", tmp_path / "pulled")[0] == 0
    assert run("ls", "")[0] == 2


def test_compact_says_nothing_of_records_it_did_not_remove(run, tmp_path):
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    source = _pair(tmp_path / "in", data, idx)
    _, told, _ = run("compact", source, "--in-place")
    (outcome,) = told["sessions"]
    assert outcome["kept"] == 2 and outcome["notices"] == [] and outcome["size_after"] == len(data)


@pytest.mark.parametrize("command", ["repair", "compact"])
def test_an_overwritten_line_end_comes_back(run, tmp_path, command):
    data, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    at = len(_USER)
    source = _pair(tmp_path / "in", data[:at] + b" " + data[at + 1 :], idx)
    _, told, _ = run(command, source, "--out", tmp_path / "out")
    (outcome,) = told["sessions"]
    assert outcome["kept"] == 2 and not outcome["changed"] and not outcome["left"]
    assert (tmp_path / "out" / _NAME).read_bytes() == data


def test_compact_says_where_to(run, tmp_path):
    source = _pair(tmp_path / "in", *write_pair([(1, 1, _USER)]))
    for more in ((), ("--in-place", "--out", tmp_path / "x")):
        code, told, err = run("compact", source, *more)
        assert code == 2 and told is None and "--out DIR" in err


def test_repair_of_every_golden_damage_leaves_nothing_to_mend(run, tmp_path):
    content = {"not-json", "nul-byte", "no-message", "raw-control"}
    for folder in sorted(session_folder("g_damage").glob("*/damaged")):
        if not any(folder.iterdir()):
            continue
        name = folder.parent.name
        code, told, _ = run("repair", folder, "--out", tmp_path / name)
        (outcome,) = told["sessions"]
        assert code == 0 and outcome["dropped"] == [], name
        if not outcome["untouched"]:
            assert {finding["code"] for finding in outcome["left"]} <= content, name


def test_a_torn_chat_map_is_made_again(run, tmp_path):
    name = session_file_name("chat:web:1:work")
    source = _pair(tmp_path / "in", *write_pair([(1, 1, _USER)]), name)
    (source / "sessions.txt").write_text(f"{name}\tchat:web:1:work\n")
    torn = source / "chat_map" / chat_map_file_name("chat:web:1")
    torn.parent.mkdir()
    torn.write_bytes(b'{"chat_key":"chat:web:1","current_alias":"wo')
    code, told, _ = run("repair", source, "--out", tmp_path / "out")
    assert code == 0 and len(told["maps"]) == 1
    value = json.loads((tmp_path / "out" / "chat_map" / torn.name).read_text())
    assert value == {"chat_key": "chat:web:1", "current_alias": "work", "sessions": ["work"]}
    assert (tmp_path / "out" / "chat_map" / (torn.name + ".bad")).read_bytes() == torn.read_bytes()
    assert run("verify", tmp_path / "out")[0] == 0


def test_trimmed_turns_can_be_shown(run, tmp_path):
    source = _pair(tmp_path / "in", *write_pair([(1, 1, _USER), (2, 1, _FINAL)]))
    (source / f"{_NAME}.old").write_bytes(_USER + b"\n" + _FINAL + b"\n")
    code, told, _ = run("show", source, f"{_NAME}.old")
    assert code == 0 and [turn["completed"] for turn in told["turns"]] == [True]
    code, _, err = run("show", source, "other.log.old")
    assert code == 2 and "nothing was trimmed" in err
