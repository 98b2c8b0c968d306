"""MemoryStore.search: apart from the rest, because it comes beside a turn.

Owns: nothing but the call of recall.py and the counting of its hits.
"""

from ..compat import const
from .heat import touch
from .recall import search as by_words

RECALL_LIMIT = const(8)


def search(memory, query, limit=RECALL_LIMIT, count=True):
    """Slots of the items that fit `query` best by words (recall.py). Hits count as access."""
    out = [slot for slot, _ in by_words(memory.open(), query, limit)]
    if count:
        for slot in out:
            touch(memory, slot)
    return out
