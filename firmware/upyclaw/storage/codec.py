"""The bytes of a session: CHDX names and entries, record texts, JSON escaping (SPEC-session §1-5).

Owns: file names, FNV-1a, idx header and entries, text normalisation, the text of a USER record.
Must not touch files.
"""

from upyclaw.compat import const, join_surrogates, utf8_len

USER = const(1)
FINAL = const(2)
TOOL = const(3)
RESULT = const(4)

# Code points of a USER text that are kept (SPEC-session §5); the rest is cut off.
USER_CHARS = const(4096)

# What stands where a record broke off (a reset or an error in mid-write): there is no truncate
# (B48).
CUT_OFF = b'{"role":"assistant","content":"[cut off]"}'

# "CHDX", version 1, entries of 10 bytes (SPEC-session §3).
IDX_HEADER = b"CHDX\x01\x00\x0a\x00"
ENTRY = const(10)
ENTRY_FORMAT = "<IIBB"


def fnv1a(data):
    """32-bit FNV-1a of bytes-like `data`."""
    h = 2166136261
    for b in data:
        h = ((h ^ b) * 16777619) & 0xFFFFFFFF
    return h


def word_byte(b):
    """True if byte `b` is an ASCII letter, digit, `_` or `-`: what names may hold."""
    return 48 <= b <= 57 or 65 <= b <= 90 or 97 <= b <= 122 or b == 95 or b == 45


def session_file_name(sid):
    """File name of session id `sid` (str): at most 39 characters, ends in `.log` (SPEC-session
    §1)."""
    data = sid.encode()
    safe = "".join(chr(b) if word_byte(b) else "_" for b in data[:24])
    return "s_{}_{:08x}.log".format(safe or "default", fnv1a(data))


def _drop_bad(data):
    """Bytes of `data` that are whole UTF-8 sequences, as str; the others are left out."""
    out = []
    start = i = 0
    end = len(data)
    while i < end:
        n = utf8_len(data[i])
        try:
            if n and i + n <= end:
                bytes(data[i : i + n]).decode()
                i += n
                continue
        except (UnicodeError, ValueError):
            pass
        out.append(bytes(data[start:i]).decode())
        i += 1
        start = i
    out.append(bytes(data[start:i]).decode())
    return "".join(out)


def normalise(text, limit=USER_CHARS):
    """Text as stored: up to NUL, at most `limit` code points, strict UTF-8 (SPEC-session §5, B05,
    B06).

    `text` is str or bytes. Bytes that are not UTF-8 are left out, as the reference does; halves of
    surrogate pairs are joined or become U+FFFD. Tabs, line ends and control characters stay.
    """
    if not isinstance(text, str):
        nul = bytes(text).find(b"\0")
        if nul >= 0:
            text = text[:nul]
        try:
            text = bytes(text).decode()
        except (UnicodeError, ValueError):
            text = _drop_bad(text)
    else:
        nul = text.find("\0")
        if nul >= 0:
            text = text[:nul]
    return join_surrogates(text)[:limit]


def json_escape(text):
    """Inside of a JSON string for `text` (str, or UTF-8 bytes-like), as bytes (SPEC-session §4).

    No quotes around it. Callers pass whole characters; cleaning UTF-8 is theirs, too.
    """
    data = text.encode() if isinstance(text, str) else bytes(text)
    if not data:
        return data
    if b"\\" in data:
        data = data.replace(b"\\", b"\\\\")
    if b'"' in data:
        data = data.replace(b'"', b'\\"')
    if min(data) >= 0x20:
        return data
    for raw, escape in ((b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"), (b"\b", b"\\b")):
        data = data.replace(raw, escape)
    data = data.replace(b"\f", b"\\f")
    if min(data) >= 0x20:
        return data
    return b"".join(b"\\u%04x" % b if b < 0x20 else bytes((b,)) for b in data)


def user_record(text, limit=USER_CHARS):
    """JSON of a USER record for `text` (str or bytes), normalised, without LF, as bytes."""
    return b'{"role":"user","content":"' + json_escape(normalise(text, limit)) + b'"}'
