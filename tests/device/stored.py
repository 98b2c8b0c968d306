"""Sessions and their files as storage tests write and read them."""


def read(path):
    """The content of a file, None if there is none."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return None


def write(path, data):
    """Make a file; none if `data` is None."""
    if data is not None:
        with open(path, "wb") as f:
            f.write(data)


def lines(data):
    """The complete lines in the content of a file, without their ends."""
    return (data or b"").split(b"\n")[:-1]


def record(session, i, size=32):
    """Record `i` as the session reads it, through a buffer of `size` bytes."""
    return b"".join(bytes(c) for c in session.chunks(i, bytearray(size)))


def records(session):
    return [record(session, i) for i in range(session.count)]


def put(session, rtype, data, piece=17):
    """Append a record as a reply comes in: `piece` bytes at a time."""
    session.begin(rtype)
    for i in range(0, len(data), piece):
        session.write(data[i : i + piece])
    session.end()
