"""Replies byte by byte (B19), base URLs (B10), DNS and NTP messages."""

import json
import os
from binascii import a2b_base64

from upyclaw.llm.errors import LLMError
from upyclaw.llm.http_reply import Reply
from upyclaw.llm.url import endpoint
from upyclaw.net import clock, dns


class FakeConn:
    """Gives `data` in pieces of `size` bytes, then the end, or OSError(110) with `silent`."""

    def __init__(self, data, size, silent=False):
        self.data = data
        self.size = size
        self.silent = silent

    async def read(self, view, limit):
        n = min(len(view), self.size, len(self.data))
        if not n and self.silent:
            raise OSError(110)
        view[:n] = self.data[:n]
        self.data = self.data[n:]
        return n


async def fetch(data, size, silent=False, buf=256):
    reply = Reply(FakeConn(data, size, silent), bytearray(buf), 100)
    await reply.head()
    out = b""
    while True:
        part = await reply.part()
        if part is None:
            return reply, out
        assert len(part)
        out += bytes(part)


def shared_cases(name):
    folder = os.getenv("UPYCLAW_SHARED")
    if not folder:
        print("SKIP: the shared cases are not here")
        return []
    with open("{}/cases/{}.json".format(folder, name)) as f:
        return json.loads(f.read())["cases"]


async def test_reply_forms():
    for case in shared_cases("B19"):
        data = a2b_base64(case["input"]["raw_b64"])
        silent = case["input"].get("server_then") in ("keeps the socket open", "sends nothing")
        expected = case["expected"]
        for size in (1, 2, 3, 7, 1000):
            try:
                reply, body = await fetch(data, size, silent)
            except LLMError as error:
                assert "cut off" in error.message and "error_names" in expected, case["name"]
            except OSError as error:
                assert error.args[0] == 110 and "error_within_s" in expected, case["name"]
            else:
                assert json.loads(body) == expected["body_json"], case["name"]


async def test_no_body():
    reply, body = await fetch(b"HTTP/1.1 204 No Content\r\n\r\n", 5, True)
    assert reply.status == 204 and body == b""
    reply, body = await fetch(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 5, True)
    assert body == b""


async def test_head():
    head = (
        b"HTTP/1.1 429 Too Many Requests\r\nretry-AFTER: 7\r\nX-Long: " + b"x" * 3000 + b"\r\n"
        b"CONTENT-TYPE: application/json; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n1;a=b\r\nd\r\n0\r\n\r\n"
    )
    for size in (1, 100, 5000):
        reply, body = await fetch(head, size)
        assert reply.status == 429 and reply.retry_after == 7 and reply.whole
        assert body == b"abcd"
    reply, body = await fetch(b"HTTP/1.0 302 Found\nLocation: /login\n\nx", 4)
    assert reply.status == 302 and reply.location == "/login" and body == b"x"


async def test_chunk_sizes_across_reads():
    words = [b"x" * n for n in (1, 15, 16, 255, 256, 257, 900)]
    body = b"".join([b"%X\r\n" % len(w) + w + b"\r\n" for w in words]) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for size in (1, 3, 64, 255, 256):
        reply, got = await fetch(head + body, size)
        assert got == b"".join(words)
    for cut in range(len(head) - 3, len(head + body) - 3, 97):
        try:
            await fetch((head + body)[:cut], 100)
        except LLMError as error:
            assert error.kind == "cut"
        else:
            assert False, cut


async def test_not_http():
    for data in (
        b"SSH-2.0-OpenSSH_9\r\n",
        b"<html>",
        b"",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 9000 + b"\r\n",
        b"x" * 200000,
    ):
        try:
            await fetch(data, 200)
        except LLMError as error:
            assert error.kind in ("server", "cut"), data[:40]
        else:
            assert False, data[:40]


def test_base_urls():
    for case in shared_cases("B10"):
        given = case["input"]
        if given["backend_type"] != "openai_compatible":
            continue
        try:
            tls, host, port, path = endpoint(given["base_url"])
        except ValueError as error:
            assert case["expected"]["refused_with_setting_name"] in str(error)
        else:
            plain = port == (443 if tls else 80)
            url = ("https://" if tls else "http://") + host + ("" if plain else ":%d" % port)
            assert url + path == case["expected"]["url"]


def test_more_base_urls():
    assert endpoint("HTTPS://Api.example") == (
        True,
        "Api.example",
        443,
        "/v1/chat/completions",
    )
    assert endpoint("http://h:1/v1beta/openai/?x=1")[3] == "/v1beta/openai/chat/completions"
    for bad in ("http://", "ftp://x", "http://h:x", "http://h:0", "http://:80", "http://h:99999"):
        try:
            endpoint(bad)
        except ValueError as error:
            assert "base_url" in str(error)
        else:
            assert False, bad
    try:
        endpoint("https://me:secret-word@host/v1")
    except ValueError as error:
        assert "secret" not in str(error)
    else:
        assert False


def answer(ident, name, records):
    out = ident + b"\x81\x80\x00\x01" + bytes((0, len(records))) + b"\0\0\0\0"
    for part in name.split("."):
        out += bytes((len(part),)) + part.encode()
    out += b"\0\0\x01\0\x01"
    for kind, data in records:
        out += b"\xc0\x0c" + bytes((0, kind)) + b"\0\x01\0\0\0\x3c" + bytes((0, len(data))) + data
    return out


def test_dns_answers():
    good = answer(b"ab", "api.example", [(5, b"\x01x\xc0\x0c"), (1, b"\x0a\x00\x00\x05")])
    assert dns.read_answer(good, b"ab") == "10.0.0.5"
    assert dns.read_answer(good, b"ac") is None
    assert dns.read_answer(answer(b"ab", "no.example", []), b"ab") == ""
    assert dns.read_answer(answer(b"ab", "v6.example", [(28, b"x" * 16)]), b"ab") == ""
    for cut in range(len(good)):
        assert dns.read_answer(good[:cut], b"ab") is None, cut


def test_ntp_answers():
    def reply(seconds, nonce=b"12345678", mode=4, stratum=2):
        return (
            bytes((0x20 | mode, stratum))
            + bytes(22)
            + nonce
            + bytes(8)
            + bytes([seconds >> s & 255 for s in (24, 16, 8, 0)])
            + bytes(4)
        )

    now = 1796026877
    assert clock.read_time(reply(now + 2208988800), b"12345678") == now
    # After 2036 the seconds of NTP begin anew.
    assert clock.read_time(reply(100), b"12345678") == 4294967296 + 100 - 2208988800
    assert clock.read_time(reply(now, b"87654321"), b"12345678") is None
    assert clock.read_time(reply(now, stratum=0), b"12345678") is None
    assert clock.read_time(reply(now, mode=3), b"12345678") is None
    assert clock.read_time(b"short", b"12345678") is None
