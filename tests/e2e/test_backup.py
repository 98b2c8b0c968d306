"""`upyclaw backup` and `restore` on a running simulated board."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path

import pytest
from unit.formats_help import write_pair

from e2e.boardrig import files_on, make_image, small_firmware
from upyclaw_host.cli import main
from upyclaw_host.formats.names import session_file_name
from upyclaw_host.install import backup as backups
from upyclaw_host.repl import Repl
from upyclaw_host.sim import SimBoard

_SESSION = "/data/sessions/" + session_file_name("chat:serial:1:default_01")
_USER = '{"role":"user","content":"今天天气？"}'.encode()
_FINAL = b'{"role":"assistant","content":"' + b"sunny " * 900 + b'"}'


@pytest.fixture
def memory() -> dict[str, bytes]:
    log, idx = write_pair([(1, 1, _USER), (2, 1, _FINAL)])
    return {
        _SESSION: log,
        _SESSION + ".idx": idx,
        "/data/memory/memory_records.jsonl": bytes(range(256)) * 40,
        "/data/empty": b"",
        "/data/a name with spaces.txt": "字".encode(),
        "/config.json": b'{"model":{"api_key":"sk-secret"}}',
        "/wifi.json": b'{"networks":[{"ssid":"Home","password":"hunter2hunter2"}]}',
        "/data/web_tokens": b"0123456789abcdef0123 fedcba98765432100123\n",
        "/lib/mine.py": b"x = 1\n",
    }


@pytest.fixture
def board(tmp_path: Path, memory: dict[str, bytes]):
    image = tmp_path / "flash.img"
    make_image(image, {**small_firmware("old"), **memory})
    with SimBoard(image, update=False) as running:
        yield running


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    told = capsys.readouterr()
    return int(stop.value.code or 0), told.out, told.err


def copies(folder: Path) -> dict[str, bytes]:
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "backup.json"]
    return {"/" + p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def test_everything_but_the_firmware_is_copied(board, memory, tmp_path, capsys):
    folder = tmp_path / "saved"
    code, out, _ = run(capsys, "backup", "--port", board.port, str(folder), "--json")
    told = json.loads(out)
    assert code == 0 and told["short"] == [] and told["damaged"] == []
    assert told["board"] == "sim" and told["files"] == len(memory)
    assert copies(folder) == memory
    # Secrets are among it: said plainly, never shown, for nobody else to read (B30).
    assert told["secrets"] == ["/config.json", "/wifi.json", "/data/web_tokens"]
    assert all(
        path.stat().st_mode & 0o777 == 0o600 for path in folder.rglob("*") if path.is_file()
    )
    assert folder.stat().st_mode & 0o77 == 0
    # It is a SOURCE.
    code, out, _ = run(capsys, "session", "verify", str(folder), "--json")
    assert code == 0 and [one["records"] for one in json.loads(out)["sessions"]] == [2]
    code, _, err = run(capsys, "backup", "--port", board.port, str(folder))
    assert code == 2 and "is not empty" in err
    again = tmp_path / "again"
    code, out, err = run(capsys, "backup", "--port", board.port, str(again))
    assert code == 0 and "config.json (keys of model servers), wifi.json (Wi-Fi passwords)" in out
    assert not any(secret in out + err for secret in ("sk-secret", "hunter2", "0123456789abcdef"))
    # The board's program runs again.
    time.sleep(1.0)
    with Repl(board.port) as repl:
        assert "upyclaw.app" in repl.run("import sys\nprint(list(sys.modules))")


def test_short_copies_are_told_from_damage(board, memory, tmp_path, capsys, monkeypatch):
    read, short = Repl.read, "/data/memory/memory_records.jsonl"
    tries = []

    def lossy(self, path, progress=None):
        data, whole = read(self, path, progress)
        if path == short:
            tries.append(path)
            return data[:100], False
        return data, whole

    monkeypatch.setattr(Repl, "read", lossy)
    folder = tmp_path / "saved"
    code, out, _ = run(capsys, "backup", "--port", board.port, str(folder))
    assert code == 1 and len(tries) == 3
    assert f"{short}: short copy" in out and "damaged" not in out
    code, _, err = run(capsys, "restore", "--port", board.port, str(folder))
    assert code == 2 and "is not whole" in err and short in err


def test_damage_on_the_board_is_copied_as_it_is_and_told(memory, tmp_path, capsys):
    log = bytearray(memory[_SESSION])
    log[5:20] = b"\xff" * 15
    image = tmp_path / "flash.img"
    make_image(image, {**small_firmware("old"), **memory, _SESSION: bytes(log)})
    folder = tmp_path / "saved"
    with SimBoard(image, update=False) as board:
        code, out, _ = run(capsys, "backup", "--port", board.port, str(folder))
    assert code == 1 and "damaged on the board itself" in out and "short" not in out
    assert copies(folder)[_SESSION] == log


def test_restore_puts_back_all_and_keeps_what_it_replaces(board, memory, tmp_path, capsys):
    folder, kept = tmp_path / "saved", tmp_path / "kept"
    assert run(capsys, "backup", "--port", board.port, str(folder))[0] == 0
    code, out, _ = run(capsys, "restore", "--port", board.port, str(folder))
    assert code == 0 and "has all of it already" in out
    board.stop()
    image = board.flash
    now = {**memory, _SESSION: b"", "/data/newer.txt": b"stays"}
    del now["/lib/mine.py"], now[_SESSION + ".idx"]
    image.unlink()
    make_image(image, {**small_firmware("new"), **now})
    board.start()
    command = ("restore", "--port", board.port, str(folder), "--keep", str(kept), "--json")
    code, out, err = run(capsys, *command)
    assert code == 0, err
    told = json.loads(out)
    assert told["restored"] == sorted([_SESSION, _SESSION + ".idx", "/lib/mine.py"])
    assert told["replaced"] == [_SESSION] and copies(kept) == {_SESSION: b""}
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in kept.rglob("*") if p.is_file())
    board.stop()
    found = files_on(image)
    assert found == {**small_firmware("new"), **memory, "/data/newer.txt": b"stays"}


def test_what_was_kept_earlier_is_never_written_over(board, memory, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "saved"
    code, _, err = run(capsys, "backup", "--port", board.port, str(folder))
    assert code == 0, err
    with Repl(board.port) as repl:
        repl.run("with open('/lib/mine.py', 'w') as f:\n f.write('y = 2\\n')")
    before = copies(folder)
    command = ("restore", "--port", board.port, str(folder), "--keep", str(folder))
    code, _, err = run(capsys, *command)
    assert code == 2 and "is not empty" in err and copies(folder) == before
    with Repl(board.port) as repl:
        assert repl.text("/lib/mine.py") == b"y = 2\n"
    monkeypatch.chdir(folder)
    code, out, err = run(capsys, "restore", "--port", board.port, ".")
    assert code == 0, err
    (kept,) = tmp_path.glob("saved-replaced-*")
    assert copies(kept) == {"/lib/mine.py": b"y = 2\n"} and str(kept) in out
    assert copies(folder) == before == memory


@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "outside", "no list", "bad list"])
def test_a_backup_that_is_not_as_it_was_is_refused(harm, board, memory, tmp_path, capsys):
    folder = tmp_path / "saved"
    folder.mkdir()
    saved = backups.Backup(folder, "sim", 1)
    for path, data in memory.items():
        saved.files[path] = (len(data), hashlib.sha256(data).hexdigest())
        backups.save(saved.local(path), data)
    backups._write_list(saved)
    assert backups.load(folder).files == saved.files
    victim = saved.local(_SESSION)
    words = ""
    if harm == "cut":
        victim.write_bytes(memory[_SESSION][:50])
        words = "short copy (50 of"
    elif harm == "changed":
        victim.write_bytes(memory[_SESSION].replace(b"sunny", b"SUNNY"))
        words = "was changed since the backup"
    elif harm == "missing":
        victim.unlink()
        words = "can't be read"
    elif harm == "outside":
        listed = json.loads((folder / "backup.json").read_text())
        listed["files"]["/../../etc/passwd"] = {"size": 1, "sha256": "0" * 64}
        (folder / "backup.json").write_text(json.dumps(listed))
        words = "impossible path"
    elif harm == "no list":
        (folder / "backup.json").unlink()
        words = "is no backup"
    else:
        (folder / "backup.json").write_text("{")
        words = "is damaged"
    board.stop()
    before = files_on(board.flash)
    board.start()
    code, _, err = run(capsys, "restore", "--port", board.port, str(folder))
    assert code == 2 and words in err and len(err.splitlines()) == 1
    board.stop()
    assert files_on(board.flash) == before


def test_a_cable_pulled_in_a_restore_changes_nothing(board, memory, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "saved"
    assert run(capsys, "backup", "--port", board.port, str(folder))[0] == 0
    board.stop()
    shutil.copy(board.flash, tmp_path / "copy.img")
    now = {**small_firmware("old"), "/config.json": b"{}"}
    board.flash.unlink()
    make_image(board.flash, now)
    board.start()
    write = Repl.write

    def pulled(self, path, data, progress=None):
        if path.endswith(".idx"):
            board.unplug()
        write(self, path, data, progress)

    monkeypatch.setattr(Repl, "write", pulled)
    code, _, err = run(capsys, "restore", "--port", board.port, str(folder))
    assert code == 1 and "does not answer any more" in err
    board.plug()
    board.kill()
    with Repl(board.port) as repl:
        assert repl.text("/config.json") == b"{}" and _SESSION not in repl.files()
    monkeypatch.undo()
    code, _, err = run(capsys, "restore", "--port", board.port, str(folder))
    assert code == 0, err
    board.stop()
    assert files_on(board.flash) == {**now, **memory}
