"""The simulated UART's rules, without any process: speed, overflow, Ctrl-C, held input."""

from __future__ import annotations

import pytest

from upyclaw_host.sim.gate import Gate, Seen
from upyclaw_host.sim.uart import InputBuffer, Pacer, UartStats


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    stats = UartStats()
    buffer = InputBuffer(260, stats)
    buffer.receive(bytes(200), unread=0)
    buffer.receive(b"x" * 100, unread=20)
    assert len(buffer.held) == 240
    assert buffer.held[200:] == b"x" * 40
    assert (stats.received, stats.lost) == (300, 60)
    buffer.receive(b"y", unread=20)
    assert stats.lost == 61


def test_pacer_keeps_the_baud_rate_and_saves_nothing_up() -> None:
    pacer = Pacer(115200)
    passed = 0
    for tick in range(1001):
        count = pacer.allowed(tick / 1000, 4096)
        pacer.passed(count)
        passed += count
    assert 11400 <= passed <= 11600
    assert pacer.allowed(100.0, 4096) <= 115200 / 10 * 0.006
    assert Pacer(None).allowed(0.0, 4096) == 4096


def take(
    gate: Gate, held: bytearray, now: float, prompt: bool, unread: int = 0
) -> tuple[bytes, bool]:
    return gate.take(held, Seen(now, prompt, unread))


def test_ctrl_c_is_a_signal_while_code_runs_and_a_byte_at_the_prompt() -> None:
    gate, held = Gate(), bytearray(b"ab\x03cd")
    assert take(gate, held, 0.0, prompt=False) == (b"ab", True)
    assert held == b"cd"
    gate, held = Gate(), bytearray(b"ab\x03cd")
    assert take(gate, held, 0.0, prompt=True) == (b"ab\x03cd", False)


def test_after_the_signal_everything_waits_for_the_prompt() -> None:
    gate, held = Gate(), bytearray(b"\x03\x03\r\x01")
    assert take(gate, held, 0.0, prompt=False) == (b"", True)
    assert take(gate, held, 0.1, prompt=False) == (b"", False)
    assert gate.holding
    assert take(gate, held, 0.2, prompt=True) == (b"\x03\r", False)


def test_a_program_that_survives_ctrl_c_gets_the_next_one_later() -> None:
    gate, held = Gate(), bytearray(b"\x03\x03")
    assert take(gate, held, 0.0, prompt=False) == (b"", True)
    assert take(gate, held, 0.29, prompt=False) == (b"", False)
    assert take(gate, held, 0.31, prompt=False) == (b"", True)


def test_lines_typed_ahead_wait_until_the_one_before_is_done() -> None:
    gate, held = Gate(), bytearray(b"a()\rb()\r")
    assert take(gate, held, 0.0, prompt=True) == (b"a()\r", False)
    assert take(gate, held, 0.001, prompt=True, unread=2) == (b"", False)
    assert take(gate, held, 0.002, prompt=False) == (b"", False)
    gate.output(b"a()\r\n1\r\n>>> ")
    assert take(gate, held, 0.003, prompt=True) == (b"b()\r", False)


def test_in_the_raw_repl_only_ctrl_d_runs_code() -> None:
    gate, held = Gate(), bytearray(b"a()\r\n\x04\x02")
    assert gate.take(held, Seen(0.0, True, 0, raw=True)) == (b"a()\r\n\x04", False)
    assert gate.take(held, Seen(0.0, True, 0, raw=True)) == (b"", False)


def test_ctrl_c_stops_the_line_that_was_just_started() -> None:
    gate, held = Gate(), bytearray(b"a()\r\x03")
    assert take(gate, held, 0.0, prompt=True) == (b"a()\r", False)
    assert take(gate, held, 0.001, prompt=False) == (b"", True)


def test_code_that_goes_on_running_gets_its_input() -> None:
    gate, held = Gate(), bytearray(b"a()\rinput")
    assert take(gate, held, 0.0, prompt=True) == (b"a()\r", False)
    assert take(gate, held, Gate.RUN_S + 0.001, prompt=False) == (b"input", False)


@pytest.mark.parametrize(("now", "prompt"), [(0.1, True), (1.1, False)])
def test_a_hold_ends_with_the_prompt_or_in_time(now: float, prompt: bool) -> None:
    gate, held = Gate(), bytearray(b"x")
    gate.hold(1.0)
    assert take(gate, held, 0.05, prompt=False) == (b"", False)
    assert take(gate, held, now, prompt=prompt) == (b"x", False)
