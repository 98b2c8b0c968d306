"""`/session` on the simulated board: a full session, and the ways out of it (B03).

The session is filled on the image with questions and answers alone, which compaction keeps, so the
next turn blocks it.
"""

from __future__ import annotations

import json
import shutil

import pytest
from unit.formats_help import write_pair

from e2e.rig import say, talk
from upyclaw_host.flash.image import open_image
from upyclaw_host.formats.names import session_file_name
from upyclaw_host.sim import SimBoard, build_flash

_SID = "chat:serial:usb:default_01"
_LOG = f"/data/sessions/{session_file_name(_SID)}"
_TURNS = 160


def _record(role: str, text: str) -> bytes:
    return json.dumps({"role": role, "content": text}, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def full_template(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "full.img"
    build_flash(path)
    records = []
    for i in range(_TURNS):
        records.append((1, 1, _record("user", f"question {i} " + "q" * 450)))
        records.append((2, 1, _record("assistant", f"answer {i} " + "a" * 450)))
    data, idx = write_pair(records)
    assert len(data) > 153_600
    with open_image(path, write=True) as image:
        image.write(_LOG, data)
        image.write(_LOG + ".idx", idx)
    return path


@pytest.fixture
def full(full_template, tmp_path):
    path = tmp_path / "full.img"
    shutil.copy(full_template, path)
    return path


def _data(flash):
    with open_image(flash) as image:
        return image.read(_LOG)


def test_a_full_session_says_how_to_go_on_and_every_way_works(full, scripted):
    script = scripted([say(f"reply {i}") for i in range(8)])
    lines = ["last", "refused", "/session new other", "elsewhere", "/session switch default_01"]
    with SimBoard(full) as board:
        last, refused, new, elsewhere, switch = talk(board.port, script.relay(), *lines)
    # The answer still comes, then the session takes no more, untouched; others go on.
    assert last.ok and last.text == "reply 0"
    assert len(last.notes) == 1 and "/session trim" in last.notes[0]
    assert not refused.ok and "/session new" in refused.error
    assert new.ok and switch.ok and elsewhere.text == "reply 1"
    data = _data(full)
    assert data.count(b"\n") == 2 * _TURNS + 2 and b"refused" not in data

    lines = ["refused too", "/session info", "/session trim", "after", "/session info"]
    script = scripted([say("welcome back")])
    with SimBoard(full) as board:
        refused, info, trim, after, later = talk(board.port, script.relay(), *lines)
    assert not refused.ok and "is full" in info.text
    # What became of the old turns is said where it was asked for, and not again.
    assert trim.ok and ".log.old" in trim.text and "74 KB now, instead of 154 KB" in trim.text
    assert after.text == "welcome back" and after.notes == []
    assert "is full" not in later.text
    roles = [role for role, _ in script.messages()]
    assert roles[0] == "user" and roles[-1] == "user"
    with open_image(full) as image:
        old = image.read(_LOG + ".old")
        now = image.read(_LOG)
        assert not [e.path for e in image.walk("/data/sessions") if e.path.endswith(".blocked")]
    # Every word is in one of the two files, in order.
    assert (old + now).startswith(data)
    assert len(now) < 153_600 // 2 + 200


def test_deleting_a_full_session_takes_all_of_it(full, scripted):
    script = scripted([say("reply"), say("fresh")])
    lines = ["last", "/session new other", "/session delete default_01", "/session list", "hi"]
    with SimBoard(full) as board:
        *_, delete, listed, after = talk(board.port, script.relay(), *lines)
    assert delete.ok and "default_01" not in listed.text and after.text == "fresh"
    with open_image(full) as image:
        left = [e.path for e in image.walk("/data/sessions")]
        assert not [path for path in left if path.startswith(_LOG)]
        assert b"default_01" not in image.read("/data/sessions/sessions.txt")


def test_when_full_trim_needs_nobody(full, scripted):
    with open_image(full, write=True) as image:
        image.write("/config.json", b'{"session": {"when_full": "trim"}}')
    script = scripted([say("reply"), say("again")])
    with SimBoard(full) as board:
        last, after = talk(board.port, script.relay(), "last", "next")
    assert last.ok and len(last.notes) == 1 and "moved to" in last.notes[0], last.notes
    assert after.ok and after.text == "again" and after.notes == []
    assert len(_data(full)) < 153_600 // 2 + 200
