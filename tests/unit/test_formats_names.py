"""Names of session files and chat maps against the reference's vectors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.formats_help import GOLDEN
from upyclaw_host.formats.chatmap import parse_chat_map
from upyclaw_host.formats.namelist import parse_name_list
from upyclaw_host.formats.names import (
    chat_map_file_name,
    parse_session_file,
    session_file_name,
)

_VECTORS = json.loads((GOLDEN / "vectors" / "session_paths.json").read_text())
_MAPS = GOLDEN / "sessions" / "i_session_commands" / "after" / "chat_map"


@pytest.mark.parametrize("vector", _VECTORS, ids=lambda v: v["path_below_root"])
def test_session_names_are_the_references(vector):
    assert session_file_name(vector["session_id"]) == vector["path_below_root"]


@given(st.text(max_size=80))
def test_every_session_name_is_short_and_recognised(session_id):
    name = session_file_name(session_id)
    assert len(name) <= 39
    found = parse_session_file(name)
    assert found is not None and (found.base, found.role) == (name, "data")
    other = parse_session_file(name + ".idx")
    assert other is not None and (other.base, other.role) == (name, "idx")


@pytest.mark.parametrize(
    ("tail", "role"),
    [
        (".blocked", "blocked"),
        (".open", "open"),
        (".new", "data.new"),
        (".idx.new", "idx.new"),
        (".old", "old"),
        (".bad", "data.bad"),
        (".idx.bad", "idx.bad"),
        (".2.bad", "bad"),
        (".txt", "other"),
    ],
)
def test_files_beside_the_pair_are_recognised(tail, role):
    found = parse_session_file("s_chat_web_1_bb136566.log" + tail)
    assert found is not None and found.role == role


@pytest.mark.parametrize("name", ["notes.log", "s_x.log", "s_x_12345678.txt", "chat_map"])
def test_other_files_are_not_sessions(name):
    assert parse_session_file(name) is None


def test_chat_map_names_are_the_references():
    scenario = json.loads((_MAPS.parents[1] / "scenario.json").read_text())
    seen = 0
    for step in scenario["steps"]:
        for name, text in step.get("files", {}).items() if isinstance(step, dict) else ():
            try:
                key = json.loads(text)["chat_key"]
            except ValueError:
                continue
            assert chat_map_file_name(key) == name
            seen += 1
    assert seen >= 5


def test_golden_chat_maps_are_read_and_the_torn_one_is_named():
    told = {path.name: parse_chat_map(path.read_bytes(), path.name) for path in _MAPS.iterdir()}
    chat, findings = told["chat_chat_web_browser_1_63a60b57.json"]
    assert chat is not None and not findings
    assert (chat.key, chat.current) == ("chat:web:browser-1", "work")
    assert chat.aliases == ("default_01", "work")
    assert session_file_name("chat:web:browser-1:work") in chat.files()
    torn, findings = told["chat_chat_many_1_92b49979.json"]
    assert torn is None
    assert [f.code for f in findings] == ["map-not-json"] and findings[0].offset is not None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"chat_key":"chat:a:1","current_alias":"b","sessions":["a"]}', "map-current"),
        ('{"chat_key":"chat:a:1","current_alias":"a","sessions":["a","a"]}', "map-aliases"),
        ('{"chat_key":"chat:a:1","current_alias":"a","sessions":["a","b c"]}', "map-aliases"),
        ('{"chat_key":"chat:a:1","current_alias":"","sessions":[]}', "map-count"),
        ('{"chat_key":"chat:a:2","current_alias":"a","sessions":["a"]}', "map-name"),
        ('{"chat_key":7,"current_alias":"a","sessions":["a"]}', "map-shape"),
        ("[]", "map-shape"),
    ],
)
def test_faults_of_a_chat_map_are_named(text, code):
    _, findings = parse_chat_map(text.encode(), "chat_map/" + chat_map_file_name("chat:a:1"))
    assert code in {finding.code for finding in findings}


@given(st.binary(max_size=200))
def test_no_bytes_of_a_chat_map_raise(raw):
    chat, findings = parse_chat_map(raw, "chat_x_00000000.json")
    assert chat is not None or findings


def test_the_list_of_names_gives_ids_and_names_its_faults():
    name = session_file_name('chat:serial:1:"x"\t')
    good = name.encode() + b'\tchat:serial:1:\\"x\\"\\t\n'
    owners, findings = parse_name_list(good, "sessions.txt")
    assert owners == {name: 'chat:serial:1:"x"\t'} and not findings
    bad = b"\n" + b"rubbish\n" + b"s_a_00000000.log\ta\n" + good + b"s_b"
    owners, findings = parse_name_list(bad, "sessions.txt")
    assert owners[name] == 'chat:serial:1:"x"\t'
    assert [(f.code, f.offset) for f in findings] == [
        ("list-line", 1),
        ("list-name", 9),
        ("list-torn", len(bad) - 3),
    ]


@given(st.binary(max_size=100))
def test_no_bytes_of_the_list_raise(raw):
    owners, _ = parse_name_list(raw, "sessions.txt")
    assert len(owners) <= raw.count(b"\n")
