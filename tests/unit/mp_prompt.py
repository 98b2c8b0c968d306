"""Runs under MicroPython: prints the request body, in base64, for each session of a JSON file.

Arguments: folder of fake_session.py, the file: a list of [budget, piece size,
[[type, format, base64 of the record], ...]].
"""

import binascii
import json
import sys

sys.path.insert(0, sys.argv[1])

from fake_session import FakeSession

from upyclaw.prompt import Request

with open(sys.argv[2], "rb") as f:
    cases = json.loads(f.read())
for budget, size, records in cases:
    session = FakeSession([(r[0], r[1], binascii.a2b_base64(r[2])) for r in records])
    request = Request(session, [("A", "text")], budget, options={"tool_rounds": True})
    body = b"".join(bytes(p) for p in request.pieces(bytearray(size)))
    print(binascii.b2a_base64(body).decode().strip())
