"""`upyclaw session` from the command line: output, JSON, exit codes."""

from __future__ import annotations

import json

import pytest

from unit.formats_help import session_folder, write_pair
from upyclaw_host.cli import main
from upyclaw_host.formats.names import session_file_name


@pytest.fixture
def run(capsys):
    """Run the command; returns (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["session", *map(str, arguments)])
        told = capsys.readouterr()
        return int(stop.value.code or 0), told.out, told.err

    return call


_TOOLS = "b_openai_tools/after"


def test_ls_lists_sessions(run):
    code, out, _ = run("ls", session_folder(_TOOLS))
    assert code == 0 and "s_chat_web_tools_238c696a.log" in out and "1,011" in out
    code, out, _ = run("ls", session_folder(_TOOLS), "--json")
    (one,) = json.loads(out)["sessions"]
    assert code == 0 and (one["records"], one["turns"], one["bytes"]) == (9, 3, 1011)


def test_ls_names_sessions_by_the_chat_maps(run):
    code, out, _ = run("ls", session_folder("i_session_commands/after"), "--json")
    told = json.loads(out)
    assert code == 0
    assert told["sessions"][0]["id"] == "chat:telegram:42:default_01"
    assert [f["code"] for f in told["findings"]] == ["map-not-json"]


def test_show_folds_tool_calls(run):
    code, out, _ = run("show", session_folder(_TOOLS))
    assert code == 0
    assert 'lamp_set({"on":true}) → {"ok":true}' in out and "The lamp is on" in out
    assert "no answer was kept" in out


def test_show_full_unfolds_and_json_tells_all(run):
    code, out, _ = run("show", session_folder(_TOOLS), "--full")
    assert code == 0 and "ESP_ERR_TIMEOUT" in out
    code, out, _ = run("show", session_folder(_TOOLS), "chat:web:tools", "--json")
    turns = json.loads(out)["turns"]
    assert [turn["completed"] for turn in turns] == [True, False, True]
    failed = [m for m in turns[0]["messages"] if m.get("is_error")]
    assert [m["text"] for m in failed] == ["ESP_ERR_TIMEOUT"]


def test_show_raw_prints_the_bytes_of_the_file(capfdbinary):
    folder = session_folder(_TOOLS)
    with pytest.raises(SystemExit):
        main(["session", "show", str(folder), "--raw"])
    (data,) = folder.glob("*.log")
    assert capfdbinary.readouterr().out == data.read_bytes()


def test_text_from_a_file_cannot_control_the_terminal(run, tmp_path):
    raw = b'{"role":"user","content":"a\\u001b[31mred\\u0007\\u009b2J"}'
    data, idx = write_pair([(1, 1, raw)])
    name = session_file_name("x")
    (tmp_path / name).write_bytes(data)
    (tmp_path / (name + ".idx")).write_bytes(idx)
    _, out, _ = run("show", tmp_path)
    assert not set(out) & {"\x1b", "\x07", "\x9b"} and "␛[31mred" in out


def test_chinese_lines_stay_within_the_width(run, tmp_path, monkeypatch):
    from rich.cells import cell_len

    monkeypatch.setenv("COLUMNS", "60")
    args = json.dumps({"city": "杭州" * 30}, ensure_ascii=False)
    call = {"id": "c1", "type": "function", "function": {"name": "天气", "arguments": args}}
    records = [
        {"role": "user", "content": "今天天气怎么样？" * 12},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        [{"role": "tool", "tool_call_id": "c1", "content": "晴" * 90}],
        {"role": "assistant", "content": "😀晴天" * 20},
    ]
    kinds = (1, 3, 4, 2)
    data, idx = write_pair(
        [
            (k, 1, json.dumps(r, ensure_ascii=False).encode())
            for k, r in zip(kinds, records, strict=True)
        ]
    )
    name = session_file_name("x")
    (tmp_path / name).write_bytes(data)
    (tmp_path / (name + ".idx")).write_bytes(idx)
    _, out, _ = run("show", tmp_path)
    lines = out.splitlines()
    assert all(cell_len(line) <= 60 for line in lines[1:])
    assert out.count("怎") == 12 and out.count("😀") == 20
    (folded,) = [line for line in lines if "⚙" in line]
    assert "天气(" in folded and "→ 晴" in folded and folded.rstrip().endswith("…")


def test_verify_names_file_byte_and_ends_with_1(run):
    folder = session_folder("g_damage") / "idx_truncated_mid_entry" / "damaged"
    code, out, _ = run("verify", folder)
    assert code == 1 and "s_dmg_f66d5367.log.idx:58" in out
    code, out, _ = run("verify", folder, "dmg", "--json")
    told = json.loads(out)
    assert code == 1 and told["ok"] is False
    faults = [f for f in told["sessions"][0]["findings"] if f["severity"] == "error"]
    assert [(f["file"], f["offset"]) for f in faults] == [("s_dmg_f66d5367.log.idx", 58)]


def test_verify_of_whole_files_ends_with_0(run):
    code, out, _ = run("verify", session_folder(_TOOLS))
    assert code == 0 and "no faults" in out
    code, out, _ = run("verify", session_folder(_TOOLS), "--json")
    assert code == 0 and json.loads(out)["ok"] is True


@pytest.mark.parametrize("form", ["md", "jsonl", "openai"])
def test_export_writes_to_stdout_or_to_a_file(run, tmp_path, form):
    code, out, _ = run("export", session_folder(_TOOLS), "--format", form)
    assert code == 0 and "The lamp is on" in out
    target = tmp_path / "out.txt"
    code, shown, told = run("export", session_folder(_TOOLS), "--format", form, "--out", target)
    assert code == 0 and shown == "" and "9 records" in told
    assert target.read_text(encoding="utf-8") == out
    if form == "openai":
        assert json.loads(out)[0]["role"] == "user"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ls",), "Say where"),
        (("show", "{}", "nope"), "s_chat_web_tools_238c696a.log"),
        (("show", "{}", "a", "b"), '"b" is too much'),
        (("verify", "/nonexistent/place"), "/nonexistent/place does not exist"),
        (("export", "{}", "--out", "/nonexistent/x.md"), "/nonexistent/x.md can't be written"),
        (("ls", "--port", "/dev/no-such-port"), "There is no port /dev/no-such-port"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(run, arguments, words):
    folder = str(session_folder(_TOOLS))
    code, _, err = run(*(argument.replace("{}", folder) for argument in arguments))
    assert code == 2 and words in err and err.count("\n") == 1 and "Traceback" not in err
