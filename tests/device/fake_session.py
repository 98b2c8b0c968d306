"""A session in RAM with the reading side of `upyclaw.storage.Session`."""


class FakeSession:
    """`records`: list of (type, format, bytes of JSON)."""

    def __init__(self, records=()):
        self.records = list(records)

    @property
    def count(self):
        return len(self.records)

    def entry(self, i):
        at = 0
        for record in self.records[:i]:
            at += len(record[2]) + 1
        rtype, fmt, data = self.records[i]
        return at, len(data), rtype, fmt

    def chunks(self, i, buf):
        data = memoryview(self.records[i][2])
        view = memoryview(buf)
        for at in range(0, len(data), len(buf)):
            n = min(len(buf), len(data) - at)
            view[:n] = data[at : at + n]
            yield view[:n]

    def add(self, rtype, text, fmt=1):
        self.records.append((rtype, fmt, text if isinstance(text, bytes) else text.encode()))
