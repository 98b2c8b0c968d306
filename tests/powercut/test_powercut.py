"""No power cut at any flash operation loses an acknowledged word (issue: storage, proof 10).

The long run is `upyclaw bench powercut`; here every story but the longest is told once, and every
few of its recoveries are cut, too.
"""

from __future__ import annotations

import pytest

from upyclaw_host.bench import powercut
from upyclaw_host.bench.device_run import run_script


@pytest.fixture(scope="module")
def result() -> dict:
    names = [name for name in powercut.STORIES if name != "compaction of 150 KB"]
    return powercut.run(lambda text: None, cuts=1, stride=3, names=names)


def test_no_cut_loses_anything(result: dict) -> None:
    assert result["violations"] == 0, "\n".join(result["examples"])
    assert result["total"] >= 10_000


@pytest.mark.parametrize("name", powercut.STORIES[1:])
def test_each_story_is_cut_at_each_operation(result: dict, name: str) -> None:
    story = result["stories"][name]
    # Clean and torn before each, and once after the last.
    assert story["operations"] > 10
    assert story["cuts"] == 2 * story["operations"] + 1
    assert story["second_cuts"] > 0


def test_the_harness_sees_what_is_lost() -> None:
    # A store that forgets the user's record, or leaves its temporary files, does not pass.
    (line,) = run_script("powercut", "1", "1000", "forgetful store")
    assert line["violation_count"] > 0
    assert any("records" in text for text in line["violations"])
