"""2,000 virtual days of a scripted user with the memory, under real MicroPython (mp_soak.py)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from unit.on_micropython import micropython
from upyclaw_host.formats.memory import FILES, read_memory

_SCRIPT = Path(__file__).with_name("mp_soak.py")
_DAYS = 2000
# Bytes: 128 lines of up to 330 and the old lines that wait for compaction; the digest's bound and
# one batch; two files made of at most 128 short items.
_BOUNDS = {
    "memory_records.jsonl": 128 * 330 + 14336,
    "memory_digest.log": 16384 + 4096,
    "memory_index.json": 16384,
    "MEMORY.md": 24576,
}
_ERASES_A_DAY = 4


def test_soak(capsys):
    told = json.loads(micropython(_SCRIPT, str(_DAYS), heap="16M"))
    what, per_day = told["done"], told["erases"] / told["days"]
    with capsys.disabled():
        print(
            f"\n{told['days']} days: {what}; {per_day:.2f} erases a day; largest: {told['most']}"
        )
    # The script itself compares all memories with its diary, every 100 days and at the end.
    assert told["days"] == _DAYS and len(told["known"]) == 128
    assert what["evicted"] > 60 and min(what.values()) > 0
    for kind in ("fact", "order", "correct", "forget", "gone", "again", "recall", "restarts"):
        assert what[kind] >= 10, kind
    # One call for each line that states something, none for orders, small talk and questions.
    assert told["calls"] == sum(what[kind] for kind in ("fact", "correct", "gone", "again"))
    assert per_day <= _ERASES_A_DAY
    assert told["names"] == sorted(FILES)
    for name, bound in _BOUNDS.items():
        assert told["most"][name] <= bound, (name, told["most"])
    # And as the witness sees what is on flash at the end.
    files = {name: base64.b64decode(data) for name, data in told["files"].items()}
    memory = read_memory(files)
    assert not memory.findings
    known = {name: (content, count, pinned) for name, content, count, pinned in told["known"]}
    assert known == {i.id: (i.content, i.access_count, i.pinned) for i in memory.items}
    assert sum(item.pinned for item in memory.items) >= 2
    assert [one.id for one in memory.shown] == [i.id for i in memory.by_heat(told["now"])]
