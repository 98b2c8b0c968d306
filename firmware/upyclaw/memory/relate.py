"""Which stored item a new content is the same as, refines, or is covered by.

Owns: the quick refusal by the index and the look at the few that remain (dedupe.py has the rule).
Must not change the store.
"""

from .contents import content_of
from .dedupe import DIFFERENT, SAME, compare, prepare
from .heat import LIVE
from .keys import keys, may_refine


def relate(memory, content, but=-1):
    """(relation, slot, key, signature): the nearest item, `but` left out, and the content's own
    numbers for the index."""
    table = memory.table
    key, sig = keys(content)
    near = []
    for i in range(table.n):
        if i != but and table.flags[i] & LIVE:
            if table.key[i] == key or may_refine(table.sig[i], sig):
                near.append(i)
    best = (DIFFERENT, -1)
    new = prepare(content) if near else None
    for i in near:
        how = compare(prepare(content_of(memory, i)), new)
        if how == SAME:
            return how, i, key, sig
        if how and not best[0]:
            best = (how, i)
    return best[0], best[1], key, sig
