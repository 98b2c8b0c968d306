"""A model that writes its tool calls as text, on a whole board: the tool runs, the session stays
valid."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from e2e.rig import say, talk
from upyclaw_host.sim import SimBoard


@pytest.mark.parametrize(
    "written",
    [
        '```json\n{"name": "get_time", "arguments": {}}\n```',
        '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>',
    ],
)
def test_a_written_call_runs_and_nobody_sees_it(flash, scripted, written):
    script = scripted([say(written), say("It is late."), say("You asked for the time.")])
    board = SimBoard(flash)
    board.start()
    first, second = talk(board.port, script.relay(), "How late is it?", "What did I ask?")
    board.stop()
    assert first.ok and first.text == "It is late.", first
    assert second.ok and second.text == "You asked for the time."
    assert script.messages(1)[-1][0] == "tool" and "UTC" in script.messages(1)[-1][1]
    # The next request tells it as a real call with its result.
    roles = [role for role, _ in script.messages(2)]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    call = script.requests()[2]["messages"][2]["tool_calls"][0]
    assert call["function"] == {"name": "get_time", "arguments": "{}"}
    command = [sys.executable, "-m", "upyclaw_host", "session", "verify", "--json", str(flash)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)
