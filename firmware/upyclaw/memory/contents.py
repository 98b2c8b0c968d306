"""The content of an item, read with as little code as can be.

Owns: nothing but that. For who needs no more of the record file than this.
"""

from ..compat import utf8_clean


def content_of(store, slot):
    """The content of the item in `slot`, without loading what only other lines need."""
    line = bytearray(store.table.length[slot])
    store.read(slot, line)
    a = line.find(b'"content":"') + 11
    b = line.find(b'"', a)
    if a < 11 or not line.startswith(b'{"id":"') or line.find(b"\\", a, b) >= 0:
        from .record import field

        return field(line, b"content")
    return utf8_clean(line[a:b])
