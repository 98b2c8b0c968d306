"""Finding items by the words of a question: one pass over the records, exact, no index of words.

Owns: matching and scoring (docs/memory.md, "Recall"; B29). Must not change the store. Integers
only, so that board and PC rank alike. RAM: two small arrays and the line being looked at.
"""

from array import array

from ..compat import const, utf8_clean
from .heat import LIVE, effective
from .terms import stem, terms
from .text import fold, folds, is_cjk

# Terms of a query that are looked at.
_TERMS = const(24)


def _text(line):
    """(folded bytes of content, tags and keywords; where the tags begin) of a line."""
    data = bytes(line)
    a = data.find(b'"content":"')
    b = data.find(b'","tags":"', a)
    c = data.find(b',"created_at":', b)
    if not data.startswith(b'{"id":"') or a < 0 or b < 0 or c < 0:
        from .record import from_line

        item = from_line(line)
        a = 0
        b = len(item["content"].encode())
        data = (item["content"] + "\n" + item["tags"] + "\n" + item["keywords"]).encode()
        c = len(data)
    else:
        a += 11
    if folds(data[a:c]):
        # The reference may have cut inside a character.
        head = fold(utf8_clean(data[a:b])).encode()
        return head + fold(utf8_clean(data[b:c])).encode(), len(head)
    return data[a:c].lower(), b - a


def _letter_before(data, at):
    """True if the character before byte `at` is a letter or digit of a script with blanks."""
    if not at:
        return False
    c = data[at - 1]
    if c < 0x80:
        return 48 <= c <= 57 or 97 <= c <= 122
    while c & 0xC0 == 0x80 and at > 1:
        at -= 1
        c = data[at - 1]
    return 0xC3 <= c <= 0xDF


def _word_end(data, at):
    n = len(data)
    while at < n:
        c = data[at]
        if not (48 <= c <= 57 or 97 <= c <= 122 or c == 43 or c == 35):
            if not (0xC3 <= c <= 0xDF or (c & 0xC0 == 0x80 and 0xC3 <= data[at - 1] <= 0xDF)):
                break
        at += 1
    return at


def _find_word(data, term):
    """Where the word with stem `term` (bytes) begins in `data`, -1 if it does not occur."""
    at = data.find(term)
    while at >= 0:
        if not _letter_before(data, at):
            end = _word_end(data, at)
            if end - at == len(term) or stem(utf8_clean(data[at:end])).encode() == term:
                return at
        at = data.find(term, at + 1)
    return -1


def _weight(n, hits):
    """About 2*log2(16*n/hits): a term that few items have says more."""
    q = 16 * n // hits
    w = 0
    while q > 3:
        q >>= 1
        w += 2
    return w + (q & 1)


def search(store, query, limit, strong=False):
    """[(slot, score)] of the items that fit `query` best, at most `limit`; heat breaks ties.

    `strong` keeps only those that share two terms with the query, or one that is rare in the
    store. An empty query, or one of stop words only, finds nothing.
    """
    table = store.table
    words = terms(query, _TERMS)
    if not words or not table.live:
        return []
    cjk = [is_cjk(ord(word[:1])) for word in words]
    data = [word.encode() for word in words]
    masks = array("I", bytes(4 * table.n))
    tagged = array("I", bytes(4 * table.n))
    hits = array("H", bytes(2 * len(words)))
    buf = bytearray(512)
    for slot in range(table.n):
        if not table.flags[slot] & LIVE:
            continue
        if table.length[slot] > len(buf):
            buf = bytearray(table.length[slot])
        line = memoryview(buf)[: table.length[slot]]
        store.read(slot, line)
        text, tags_at = _text(line)
        for k in range(len(data)):
            at = text.find(data[k]) if cjk[k] else _find_word(text, data[k])
            if at >= 0:
                hits[k] += 1
                masks[slot] |= 1 << k
                if at >= tags_at or text.find(data[k], tags_at) >= 0:
                    tagged[slot] |= 1 << k
    weights = [_weight(table.live, h) if h else 0 for h in hits]
    times = effective(table, store.clock())
    rare = max(2, table.live // 8)
    found = []
    for i in range(table.n):
        mask = masks[i]
        if not mask:
            continue
        score = common = matched = 0
        for k in range(len(weights)):
            if mask >> k & 1:
                matched += 1
                common += hits[k] > rare
                score += weights[k] * (3 if tagged[i] >> k & 1 else 2)
        if strong and matched < 2 and common:
            continue
        found.append((-score, -table.count[i], -times[i], i))
    found.sort()
    return [(entry[3], -entry[0]) for entry in found[:limit]]


def auto(store, text, most=3):
    """Slots of up to `most` items that fit what the user said strongly: for the prompt."""
    found = search(store, text, most, True)
    return [slot for slot, score in found if score * 2 >= found[0][1]]
