"""Names, time, known networks and the set-up page's parts; UDP over real loopback sockets."""

import asyncio
import os
import socket
import sys

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms, unix_time
from upyclaw.net import clock, dns, known
from upyclaw.net.udp import ask


class Radio:
    """Stands in for the chip's module `network`, which join.py and portal.py import."""

    STA_IF = 0
    AP_IF = 1


sys.modules.setdefault("network", Radio)

from upyclaw.net.join import host_name  # noqa: E402
from upyclaw.net.portal import dns_answer, form_values  # noqa: E402


class Server:
    """Answers UDP questions on the loopback with reply(question), if that is not None."""

    def __init__(self, reply):
        self.reply = reply
        self.asked = 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
        for _ in range(50):
            self.port = 20000 + os.urandom(1)[0] * 100 + os.urandom(1)[0] % 100
            try:
                self.sock.bind(socket.getaddrinfo("127.0.0.1", self.port)[0][-1])
                break
            except OSError:
                continue
        self.task = asyncio.create_task(self.run())

    async def run(self):
        while True:
            try:
                question, who = self.sock.recvfrom(512)
            except OSError:
                await sleep_ms(5)
                continue
            self.asked += 1
            answer = self.reply(question)
            if answer is not None:
                self.sock.sendto(answer, who)

    def close(self):
        self.task.cancel()
        self.sock.close()


async def test_a_lost_question_is_asked_again():
    server = Server(lambda q: q if server.asked > 1 else None)
    found = await ask(b"hello", "127.0.0.1", server.port, lambda a: a, 150, 3)
    assert found == b"hello" and server.asked == 2
    server.close()


async def test_wrong_answers_and_silence_end_in_none():
    server = Server(lambda q: b"nonsense")
    start = ticks_ms()

    def accept(answer):
        return answer if answer == b"right" else None

    assert await ask(b"x", "127.0.0.1", server.port, accept, 100, 2) is None
    assert 150 < ticks_diff(ticks_ms(), start) < 1500
    server.close()


async def test_names():
    def reply(question):
        name = question[12:-4]
        if name == b"\x03api\x07example\x00":
            # Through the portal's own responder: the two sides of DNS meet.
            return dns_answer(question, b"\x0a\x01\x02\x03")
        return question[:2] + b"\x81\x83\x00\x01" + bytes(6) + question[12:]

    server = Server(reply)
    assert await dns.resolve("api.example", "127.0.0.1", server.port) == "10.1.2.3"
    try:
        await dns.resolve("nobody.example", "127.0.0.1", server.port)
    except OSError as error:
        assert error.args[0] == -2
    else:
        assert False
    assert server.asked == 2
    assert await dns.resolve("192.168.1.20") == "192.168.1.20"
    assert await dns.resolve("localhost") == "127.0.0.1"
    for bad in ("a..b", "x" * 64 + ".example"):
        try:
            await dns.resolve(bad, "127.0.0.1", server.port)
        except OSError:
            pass
        else:
            assert False, bad
    server.close()


async def test_time():
    seconds = 2100000000

    def reply(question):
        stamp = bytes([(seconds + 2208988800) >> s & 255 for s in (24, 16, 8, 0)]) + bytes(4)
        return b"\x24\x02" + bytes(22) + question[40:48] + bytes(8) + stamp

    server = Server(reply)
    before = unix_time()
    try:
        assert await clock.fetch("127.0.0.1:{}".format(server.port))
        assert seconds <= unix_time() < seconds + 5
        assert clock.ready_for_tls()
    finally:
        clock.set_clock(before)
        server.close()
    assert not await clock.fetch("127.0.0.1:nonsense")


def test_host_names():
    assert host_name("upyclaw") == "upyclaw"
    assert host_name("Kitchen  Board_2") == "kitchen-board-2"
    assert (
        host_name("--a--") == "a" and host_name("厨房") == "upyclaw" and host_name("") == "upyclaw"
    )
    assert len(host_name("a" * 31 + "-b" * 9)) <= 32 and host_name("a" * 31 + "-b")[-1] == "a"


def test_known_networks(root):
    path = root + "/wifi.json"
    assert known.load(path) == []
    assert known.add("Home", "Tulip-4711", path) is None
    assert known.add("Caf\u00e9 \U0001f600", "", path) is None
    assert known.load(path) == [("Caf\u00e9 \U0001f600", ""), ("Home", "Tulip-4711")]
    # A new password moves it to the front.
    assert known.add("Home", "other-word", path) is None
    assert known.load(path)[0] == ("Home", "other-word")
    for ssid, password in (("", "12345678"), ("x" * 33, ""), ("a", "short"), ("a", "x" * 64)):
        assert known.add(ssid, password, path), ssid
    assert known.add(None, "", path) and known.add("a", None, path)
    for i in range(6):
        assert known.add("net%d" % i, "", path) is None
    assert "forget one" in known.add("one-more", "", path)
    assert known.forget("Home", path) is None
    assert "Home" in known.forget("Home", path)
    assert len(known.load(path)) == 7


def test_broken_file_of_networks(root):
    path = root + "/wifi.json"
    for data in (
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"networks":5}',
        b'{"networks":[{"ssid":1}]}',
        b"{" * 3000,
    ):
        with open(path, "wb") as f:
            f.write(data)
        assert known.load(path) == [], data
    with open(path, "wb") as f:
        f.write(b'{"networks":[{"ssid":"a","password":""},{"ssid":"b"},7]}')
    assert known.load(path) == [("a", "")]
    assert known.add("c", "", path) is None
    assert known.load(path) == [("c", ""), ("a", "")]


def test_forms():
    form = form_values(b"s=My+Home%20%E4%B8%96&p=a%26b%3D%2B&x")
    assert form["s"] == "My Home \u4e16" and form["p"] == "a&b=+" and form["x"] == ""
    for bad in (b"s=%", b"s=%4", b"s=%zz", b"s=%ff"):
        try:
            form_values(bad)
        except (ValueError, UnicodeError):
            pass
        else:
            assert False, bad


def test_answers_of_the_set_up_page():
    question = b"ab\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01"
    assert dns.read_answer(dns_answer(question, b"\xc0\xa8\x04\x01"), b"ab") == "192.168.4.1"
    # An IPv6 address is asked for: there is none.
    assert dns.read_answer(dns_answer(question[:-3] + b"\x1c\0\x01", b"1234"), b"ab") == ""
    for cut in range(len(question)):
        assert dns_answer(question[:cut], b"1234") is None, cut
    assert dns_answer(b"\xff" * 40, b"1234") is None
