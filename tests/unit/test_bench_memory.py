"""The memory's figures: what the word search finds, and what a fact costs the flash."""

from __future__ import annotations

import json

from upyclaw_host.bench import memory_wear, recall


def test_questions_find_their_facts() -> None:
    data = json.loads(recall.DATA.read_text("utf-8"))
    assert len(data["facts"]) >= 100 and len(data["questions"]) >= 100
    result = recall.run(lambda text: None)
    assert result["same_on_both"]
    assert result["share"]["words_8"] >= recall.FLOOR
    assert result["share"]["words_8"] > 2 * result["share"]["labels_8"]
    assert "Board and PC rank alike: yes" in recall.render(result)


def test_a_short_fact_costs_at_most_three_erases() -> None:
    result = memory_wear.run()
    for case in result["cases"]:
        assert case["stored"] == 128
        assert 1 <= case["erases_per_fact"] <= memory_wear.BUDGET
        assert case["store_bytes"] < memory_wear.REFERENCE_BYTES / 4
        # Recalls alone are nearly free.
        assert case["recall_erases"] * 20 <= case["recalls"]
    assert "in budget of 3: yes" in memory_wear.render(result)
