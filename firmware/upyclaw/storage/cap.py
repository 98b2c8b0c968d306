"""One cap for what tools return, used before both storing and sending (B05, B53).

Owns: the size and the cleanness of a tool result's text. Must not touch files or JSON.
"""

from upyclaw.compat import const, utf8_clean, utf8_cut

LIMIT = const(4096)
# A stretch without blanks or quotes of this many bytes, all of the base64 alphabet, is no text.
_BLOB = const(256)
# Base64 of fewer bytes than this stays (a checksum, a key); data: URLs become a mark from here on.
_URL = const(64)
_ENDS = b" \n\"'<>()"


def _mark(n):
    return "[{:,} bytes left out]".format(n).encode()


def _token_end(data, i):
    # End of the stretch that begins at `i`: the nearest of a few bytes that base64 never holds.
    end = len(data)
    for k in range(len(_ENDS)):
        at = data.find(_ENDS[k : k + 1], i, end)
        if at >= 0:
            end = at
    return end


def _looks_base64(data, start, end):
    step = max(1, (end - start) // 64)
    for i in range(start, end, step):
        b = data[i]
        if not (48 <= b <= 57 or 65 <= b <= 90 or 97 <= b <= 122 or b in b"+/=_-\r"):
            return False
    return True


def _without_blobs(data, limit):
    # The text with marks for data: URLs and base64, until `limit` bytes of it; and where it
    # stopped. Mostly there is nothing to mark, and `data` itself will do.
    out = None
    i = n = 0
    while i < len(data) and n <= limit:
        end = _token_end(data, i)
        at = data.find(b"base64,", i, end)
        url = data.find(b"data:", i, end if at < 0 else at)
        piece = b""
        if at >= 0 and url >= 0 and end > at + 7 + _URL:
            piece = data[i:url] + _mark(end - url)
        elif end - i >= _BLOB and _looks_base64(data, i, end):
            piece = _mark(end - i)
        if not piece:
            end = min(end + 1, len(data), i + limit + 4)
            n += end - i
            if out is not None:
                out.extend(data[i:end])
        else:
            if out is None:
                out = bytearray(data[:i])
            out.extend(piece)
            n = len(out)
        i = end
    return (data if i == len(data) else data[:i]) if out is None else out, i


def cap_result(data, limit=LIMIT):
    """Text of a tool result (`data`: bytes-like or str) as str of at most `limit` bytes of UTF-8.

    Base64 blobs and data: URLs become `[57,344 bytes left out]`; longer text ends in
    `… [57,344 bytes left out]`, cut at a character; bytes that are not UTF-8 become U+FFFD.
    `limit` is at least 64.
    """
    given = data
    data = data.encode() if isinstance(data, str) else bytes(data)
    text, stop = _without_blobs(data, limit)
    rest = len(data) - stop
    shown = utf8_clean(text if len(text) <= limit else text[: limit + 4])
    if not rest and len(text) <= limit and (shown == given or len(shown.encode()) <= limit):
        return shown
    shown = shown.encode()
    keep = utf8_cut(shown, limit - 40)
    left = max(len(text), len(shown)) - keep + rest
    return shown[:keep].decode() + "… [{:,} bytes left out]".format(left)
