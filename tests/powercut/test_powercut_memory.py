"""No power cut loses an acknowledged fact or brings a forgotten one back (issue: memory, 1).

The long run is `upyclaw bench powercut`; here the shorter stories are told once.
"""

from __future__ import annotations

import pytest

from upyclaw_host.bench import powercut
from upyclaw_host.bench.device_run import run_script

SHORT = ("memory: forget", "memory: damaged files", "memory: first facts")


@pytest.fixture(scope="module")
def result() -> dict:
    return powercut.run(lambda text: None, cuts=1, names=SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_each_story_is_cut_at_each_operation(result: dict, name: str) -> None:
    story = result["stories"][name]
    assert story["violations"] == 0, "\n".join(result["examples"])
    assert story["operations"] > 10
    assert story["cuts"] == 2 * story["operations"] + 1
    assert story["second_cuts"] > 0


def test_the_harness_sees_what_is_lost() -> None:
    (line,) = run_script("powercut_memory", "1", "1000", "memory: careless rewrite")
    assert line["violation_count"] > 0
    assert any("items" in text for text in line["violations"])
