"""The flash budgets of a turn hold, and the table says so."""

from __future__ import annotations

from upyclaw_host.bench import wear


def test_a_turn_keeps_its_flash_budget() -> None:
    result = wear.run(lambda text: None)
    cases = {case["case"]: case for case in result["cases"]}
    for name in ("plain turn", "long question", "tool turn, 3 rounds"):
        assert cases[name]["within"] is True, cases[name]
    # The reference's pattern is measured, not assumed.
    assert 3.5 < cases["plain turn"]["reference"]["erases"] < 5
    assert result["compaction"]["within"] is True, result["compaction"]
    assert result["opening"]["within"] is True, result["opening"]
    assert result["opening"]["records"] >= 3000
    # What an append reads does not grow with the session.
    first, last = cases["plain turn"]["ours"]["file_bytes_read_per_20_turns"]
    assert last <= first * 1.2
    text = wear.render(result)
    assert "NO" not in text and "3 rounds" in text
