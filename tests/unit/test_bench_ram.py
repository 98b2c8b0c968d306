"""The session store keeps its heap budget, and `bench ram` prints it."""

from __future__ import annotations

from upyclaw_host.bench import ram


def test_the_store_keeps_its_heap_budget() -> None:
    told: list[str] = []
    result = ram.store(told.append)
    cases = {case["case"]: case for case in result["cases"]}
    assert len(told) == len(cases) == 6
    for name, case in cases.items():
        # Less than this would mean that nothing was measured.
        assert 500 < case["heap"] <= ram.STORE_LIMIT and case["within"], (name, case)
    assert cases["opening"]["records"] >= 3000 and cases["opening"]["data"] >= 150_000
    assert cases["trim"]["data"] <= 76_800
    text = ram.render_store(result)
    assert "compaction" in text and "OVER" not in text
    cases["trim"]["within"] = False
    assert "OVER" in ram.render_store(result)
