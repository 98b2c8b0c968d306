"""The page's server: chat, history, sessions, who may come in, what abuse does (B24 B32 B38)."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from rich.console import Console

from e2e.rig import completion, say, with_client
from e2e.web_rig import Page, WebBoard, free_port, make_flash, page, web_board
from upyclaw_host.chat import ChatClient
from upyclaw_host.chat.web import show_links
from upyclaw_host.flash.image import open_image
from upyclaw_host.sim import SimBoard

TEXT = 'Fine. 好的 😀 "quoted" \\ and\nanother line. ' * 4


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flash(tmp_path_factory.mktemp("web") / "template.img")


@pytest.fixture
def web(tmp_path: Path, template: Path) -> Iterator[WebBoard]:
    with web_board(tmp_path, template, [say(TEXT, repeat=True)]) as board:
        yield board


def get(board: WebBoard, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """An HTTP GET as curl would send it, path untouched."""
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    if "Host" not in headers:
        head = f"Host: 127.0.0.1:{board.port}\r\n" + head
    answer = raw(board, f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
    first, _, body = answer.partition(b"\r\n\r\n")
    lines = first.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), fields, body


def raw(board: WebBoard, data: bytes, timeout: float = 10) -> bytes:
    """Send bytes, read to the end."""
    with socket.create_connection(("127.0.0.1", board.port), timeout=timeout) as s:
        out = b""
        try:
            s.sendall(data)
            while part := s.recv(65536):
                out += part
        except OSError:
            pass
        return out


def upgrade(board: WebBoard, **headers: str) -> int:
    """The status of a WebSocket handshake."""
    fields = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        **headers,
    }
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    if "Host" not in fields:
        head = f"Host: 127.0.0.1:{board.port}\r\n" + head
    with socket.create_connection(("127.0.0.1", board.port), timeout=10) as s:
        s.sendall(f"GET /ws HTTP/1.1\r\n{head}\r\n".encode())
        return int(s.recv(4096).split()[1])


def test_chat_history_and_sessions(web: WebBoard) -> None:
    async def run() -> None:
        async with page(web) as one:
            text, end = await one.chat('Hello 你好 "you" \\ 😀')
            assert end["ok"], end
            assert text == TEXT
            items, end = await one.ask("page", before=0, limit=20)
            assert [(m["seq"], m["role"]) for m in items] == [(2, "assistant"), (1, "user")]
            assert items[0]["text"] == TEXT
            assert items[1]["text"] == 'Hello 你好 "you" \\ 😀'
            assert (end["total"], end["before"], end["more"]) == (2, 1, False)
            for n in range(4):
                await one.chat(f"Line {n}")
            items, end = await one.ask("page", before=0, limit=3)
            assert [m["seq"] for m in items] == [10, 9, 8]
            assert end["more"]
            items, end = await one.ask("page", before=end["before"], limit=50)
            assert [m["seq"] for m in items] == [7, 6, 5, 4, 3, 2, 1]
            assert not end["more"]
            # sessions
            _, end = await one.ask("session", do="new", name="trip")
            assert end["ok"], end
            items, _ = await one.ask("page", before=0, limit=20)
            assert items == []
            items, _ = await one.ask("sessions")
            assert [(m["name"], m["current"]) for m in items] == [
                ("default_01", False),
                ("trip", True),
            ]
            _, end = await one.ask("session", do="delete", name="trip")
            assert not end["ok"]
            assert "current session" in end["error"]
            _, end = await one.ask("session", do="switch", name="default_01")
            assert end["session"] == "default_01"
            _, end = await one.ask("session", do="delete", name="trip")
            assert end["ok"], end
            _, status = await one.ask("status")
            assert status["records"] == 10
            assert status["name"] == "desk"
            assert status["serial"] is True
            # what is not understood is said, and nothing breaks
            for bad in ({"op": "session", "do": "format"}, {"op": "page", "before": []}, {}):
                await one.ws.send(json.dumps({"id": 99, **bad}))
                _, end = await one.end(99)
                assert not end["ok"]
            assert (await one.chat("still there?"))[1]["ok"]

    asyncio.run(run())
    # The board's own file names show that web and serial are different chats.
    assert web.serial("/session info").text.startswith("Session default_01: 0 records")


def test_who_may_come_in(web: WebBoard) -> None:
    async def refused(token: str, **more: Any) -> str:
        async with websockets.connect(f"ws://127.0.0.1:{web.port}/ws") as ws:
            answer = await Page(ws).login(token, **more)
            assert answer["ev"] == "refused", answer
            with pytest.raises(websockets.ConnectionClosed):
                await asyncio.wait_for(ws.recv(), 5)
            return str(answer["d"])

    async def run() -> None:
        # before login nothing is answered
        async with websockets.connect(f"ws://127.0.0.1:{web.port}/ws") as ws:
            await ws.send(json.dumps({"id": 1, "op": "page"}))
            assert (await Page(ws).receive())["ev"] == "refused"
        # a foreign page, a foreign name that leads here
        assert upgrade(web, Origin="http://evil.example") == 403
        assert upgrade(web, Origin="null") == 403
        assert upgrade(web, Host="evil.example", Origin="http://evil.example") == 421
        assert upgrade(web, Sec_WebSocket_Version="8") == 400
        assert upgrade(web, Origin=f"http://127.0.0.1:{web.port}") == 101
        assert "name" in await refused(web.owner, user="../../x")
        # guests: their own chats, no memory
        async with page(web, web.guest, "0a1b") as guest:
            _, end = await guest.chat("What do you know about me?")
            assert end["ok"]
            for op in ("memory", "profile"):
                _, end = await guest.ask(op, do="list" if op == "memory" else "show")
                assert not end["ok"], end
        async with page(web, web.guest, "ffff") as other:
            items, _ = await other.ask("page", before=0, limit=20)
            assert items == []
        async with page(web) as owner:
            items, _ = await owner.ask("page", before=0, limit=20)
            assert items == []
        # lock-out; a guest's token in between does not start the count again
        for n in range(5):
            assert "Wrong token" in await refused("0" * 20), n
            if n == 2:
                async with page(web, web.guest):
                    pass
        assert "Too many" in await refused(web.owner)
        assert "Too many" in await refused("é" * 10)

    asyncio.run(run())
    assert web.serial("hello").ok
    assert web.owner != web.guest
    assert len(web.owner) == 20
    # the token is on the serial line at start, once
    assert [line for line in web.logs if web.owner in line] == [
        f"upyclaw page: {web.home}#{web.owner}"
    ]


def test_token_survives_a_restart(web: WebBoard) -> None:
    before = (web.owner, web.guest)
    web._do(web.client.close())
    web.board.kill()
    web.start()
    assert (web.owner, web.guest) == before


def test_static_files_and_path_tricks(web: WebBoard) -> None:
    total = 0
    for path in ("/", "/app.js", "/app.css"):
        status, headers, body = get(web, path)
        assert status == 200
        assert headers["Content-Encoding"] == "gzip"
        assert body[:2] == b"\x1f\x8b"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY"
        total += len(body)
    assert total < 40_000
    with urllib.request.urlopen(f"{web.home}app.js?v=1", timeout=10) as answer:
        assert answer.status == 200
    for path in (
        "/../../data/web_tokens",
        "/..%2f..%2fdata/web_tokens",
        "/%2e%2e/config.json",
        "//data/web_tokens",
        "/app.js/../../../config.json",
        "/static/index.html",
        "/index.html.gz",
        "/config.json",
        "/app.js%00.css",
        "/" + "a/" * 300,
        "http://127.0.0.1/config.json",
    ):
        status, _, body = get(web, path)
        assert status in (400, 404), path
        assert web.owner.encode() not in body
        assert len(body) < 100
    assert get(web, "/", Host="evil.example")[0] == 421
    assert get(web, "/", Host="desk.local")[0] == 200
    assert get(web, "/ws")[0] == 400
    assert web.serial("ok?").ok


def test_abuse_leaves_the_serial_chat_alone(web: WebBoard) -> None:
    """10 MB body, slow heads, half-open connections, garbage, frames too long (B24)."""
    done = threading.Event()
    times: list[float] = []
    failures: list[str] = []

    def serial() -> None:
        while not done.is_set():
            start = time.monotonic()
            result = web.serial("Still there?")
            times.append(time.monotonic() - start)
            if not result.ok:
                failures.append(str(result.error))

    talker = threading.Thread(target=serial)
    talker.start()
    try:
        post = f"POST /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {10 << 20}\r\n\r\n"
        start = time.monotonic()
        raw(web, post.encode() + b"x" * (10 << 20))
        assert time.monotonic() - start < 10
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # a TLS hello
            b"GET\r\n\r\n",
            b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET /" + b"a" * 100_000,
            b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 20_000,
            b"\xff\xfe\x00" * 5000 + b"\r\n\r\n",
            b"A" * 1_000_000,
        ):
            answer = raw(web, data)
            assert not answer or answer.split()[1] in (b"400", b"404", b"421", b"503"), data[:40]
        slow = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(12)]
        start = time.monotonic()
        for s in slow[:6]:
            s.sendall(b"GET / HT")
        while time.monotonic() - start < 9:
            for s in slow[:3]:  # one byte a second keeps nobody's door open
                try:
                    s.sendall(b"T")
                except OSError:
                    pass
            time.sleep(1)
        # All were let go of; an honest browser gets in again.
        assert get(web, "/")[0] == 200
        for s in slow:
            s.close()
        asyncio.run(_frames(web))
        asyncio.run(_never_reads(web))
    finally:
        done.set()
        talker.join()
    assert not failures
    assert len(times) > 10
    assert max(times) < 6, max(times)
    assert get(web, "/")[0] == 200


async def _frames(web: WebBoard) -> None:
    """Frames that no browser sends close that one connection."""
    key = b"\x01\x02\x03\x04"
    for frame in (
        b"\x81\xff" + struct.pack(">Q", 1 << 40) + key,  # a terabyte
        b"\x81\xfe" + struct.pack(">H", 60_000) + key,  # longer than a message may be
        b"\x81\x05hello",  # without a mask
        b"\xf1\x80" + key,  # reserved bits
        b"\x80\x80" + key,  # continues nothing
        b"\x89\xfe\x01\x00" + key + bytes(256),  # a long ping
        b"\x81\x84" + key + b"\xff\xff\xff\xff",  # no text
        b"\x01\xfe\x10\x00" + key + bytes(4096) + b"\x80\xfe\x10\x00" + key + bytes(4096),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        # RFC 6455's own example of a key and its answer
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        writer.write(frame)
        try:
            rest = await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:
            rest = b""  # what it sent was not even read
        assert len(rest) < 200, frame[:4]
        writer.close()


async def _never_reads(web: WebBoard) -> None:
    """A page that asks and never reads is dropped; what it asked is answered in the session."""
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    writer.write(
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    reader._transport.pause_reading()  # type: ignore[attr-defined]

    def frame(message: dict[str, Any]) -> bytes:
        data = json.dumps(message).encode()
        return b"\x81" + bytes([128 | len(data)]) + bytes(4) + data

    writer.write(frame({"op": "login", "token": web.owner}))
    writer.write(frame({"id": 1, "op": "chat", "text": "from the deaf page"}))
    for _ in range(3):
        writer.write(frame({"id": 2, "op": "page"}))
    await asyncio.sleep(2)
    async with page(web) as other:
        _, end = await other.chat("from the other page")
        assert end["ok"], end
        items, _ = await other.ask("page", before=0, limit=50)
        assert "from the deaf page" in [m["text"] for m in items]
    writer.close()


def test_four_pages_and_a_fifth(web: WebBoard) -> None:
    async def run() -> None:
        async with page(web) as a, page(web) as b, page(web) as c, page(web, user="phone") as d:
            async with websockets.connect(f"ws://127.0.0.1:{web.port}/ws") as ws:
                fifth = await Page(ws).login(web.owner)
                assert fifth["ev"] == "refused"
                assert fifth["again"] is True
                assert "Four pages" in fifth["d"]
            answers = await asyncio.gather(*(one.chat("all at once") for one in (a, b, c, d)))
            assert [(text, end["ok"]) for text, end in answers] == [(TEXT, True)] * 4
            items, end = await a.ask("page", before=0, limit=50)
            assert end["total"] == 6
            # Turns of one chat never mix (B38).
            assert [m["role"] for m in items] == ["assistant", "user"] * 3
            # a change in one page is news for the others of the same chat
            b.events.clear()
            await a.chat("news")
            assert (await b.receive())["ev"] == "changed"
        # closed pages make room
        async with page(web):
            pass

    asyncio.run(run())


def test_lines_wait_their_turn_and_stop(tmp_path: Path, template: Path) -> None:
    """B38: a turn in work, a second line behind it, another chat meanwhile; then `stop`."""
    slow = {"for": "chat", "body": completion("slow answer"), "delay_ms": 2500}
    lines = [slow, say("second"), say("third"), {**slow, "delay_ms": 20_000, "repeat": True}]
    with web_board(tmp_path, template, lines) as web:

        async def run() -> None:
            async with page(web) as one:
                first = await one.send("chat", text="one")
                second = await one.send("chat", text="two")
                start = time.monotonic()
                async with page(web, user="phone") as other:
                    # Commands of another chat do not wait for this one.
                    _, end = await other.chat("/session info")
                    assert end["ok"]
                    assert time.monotonic() - start < 2
                _, end = await one.end(first)
                assert end["ok"], end
                items, end = await one.end(second)
                assert end["ok"], end
                items, _ = await one.ask("page", before=0, limit=9)
                assert [m["text"] for m in items] == ["second", "two", "slow answer", "one"]
                assert (await one.chat("three"))[0] == "third"
                start = time.monotonic()
                long = await one.send("chat", text="four")
                await asyncio.sleep(0.5)
                # A change of session waits for the turn; `stop` behind it does not.
                change = await one.send("session", do="new", name="later")
                await one.ws.send('{"op":"stop"}')
                _, end = await one.end(long)
                assert end["error"] == "Stopped."
                assert time.monotonic() - start < 5
                _, end = await one.end(change)
                assert end["session"] == "later"

        asyncio.run(run())


@pytest.mark.parametrize("enabled", ["auto", "on"])
def test_small_heap_keeps_the_page_off(flash: Path, enabled: str) -> None:
    """Where it would leave no room for a turn, the board says so and chats on."""
    config = {"web": {"enabled": enabled, "host": "127.0.0.1", "port": free_port()}}
    with open_image(flash, write=True) as image:
        image.write("/config.json", json.dumps(config).encode())
    with SimBoard(flash) as board:

        async def run(client: ChatClient) -> dict[str, Any]:
            return await client.link.ask({"op": "web"}, timeout=5)

        answer = with_client(board.port, None, run)
        assert "The page is off: it needs" in answer["why"]
        # No advice that would not help.
        assert "web.enabled" not in answer["why"]
        turn = with_client(board.port, None, lambda client: client.turn("/help"))
        assert turn.ok


def upyclaw(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program as a user calls it."""
    command = [sys.executable, "-m", "upyclaw_host", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_chat_by_url(web: WebBoard) -> None:
    done = upyclaw("chat", "--url", web.link, "--json", "--once", "Hello 你好", "--once", "Again")
    assert done.returncode == 0, done.stderr
    turns = [json.loads(line) for line in done.stdout.splitlines()]
    assert [turn["text"] for turn in turns] == [TEXT, TEXT]
    assert turns[0]["session"] == "default_01"
    wrong = upyclaw("chat", "--url", f"{web.home}#0123", "--once", "x")
    assert (wrong.returncode, wrong.stdout.strip()) == (1, "")
    assert "Wrong token" in wrong.stderr
    none = upyclaw("chat", "--url", "http://127.0.0.1:1/#0123", "--once", "x")
    assert none.returncode == 1
    assert "No board answers at http://127.0.0.1:1/" in none.stderr
    for link in ("192.168.1.20", "http://[x/#1", "http://127.0.0.1:99999/#1", "http://:80/#1"):
        bad = upyclaw("chat", "--url", link, "--once", "x")
        assert bad.returncode == 2 and "is no link to a board's page" in bad.stderr, link
    for text in (wrong.stderr, none.stderr, done.stderr):
        assert "Traceback" not in text
        assert web.owner not in text


def test_link_and_code_in_the_terminal(web: WebBoard, capsys: pytest.CaptureFixture[str]) -> None:
    links = web._do(web.client.web_links())
    assert links["url"] == web.link
    show_links(Console(width=60), links)
    out = capsys.readouterr().out
    assert web.link in out
    assert web.guest_link in out
    assert "█" in out or "▀" in out
    show_links(Console(width=60), {"why": "The page is off."})
    assert capsys.readouterr().out == "The page is off.\n"


class _Model(http.server.BaseHTTPRequestHandler):
    """A server for models that gives one answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(completion("From the network.")).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_stuck_serial_line_does_not_stop_the_page(tmp_path: Path, template: Path) -> None:
    """B24: half a character from the PC and a console that nobody reads, while a page chats."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = {"base_url": f"http://127.0.0.1:{server.server_port}/v1", "name": "m", "api_key": "k"}
    with web_board(tmp_path, template, [say("x")], model=model) as web:
        web._do(web.client.close())
        line = os.open(web.board.port, os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(line, b"\r\n\r\n\xe4")

            async def run() -> None:
                async with page(web) as one:
                    for n in range(12):
                        start = time.monotonic()
                        text, end = await one.chat(f"Line {n}")
                        assert end["ok"], end
                        assert text == "From the network."
                        assert time.monotonic() - start < 5
                        os.write(line, b"what nobody reads the echo of " * 4)

            asyncio.run(run())
        finally:
            os.close(line)
    server.shutdown()


def test_strangers_make_room(web: WebBoard) -> None:
    """Sockets that do not log in keep nobody out."""
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=10))
            s.sendall(
                f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
            )
            assert b" 101 " in s.recv(4096)

        async def run() -> None:
            async with page(web) as one:
                assert (await one.chat("in spite of them"))[1]["ok"]

        asyncio.run(run())


def test_a_turn_outlives_its_page(tmp_path: Path, template: Path) -> None:
    """The connection is lost in mid-turn: the answer is in the session, and `stop` still works."""
    lines = [say("It went on.", delay_ms=1500), say("never", delay_ms=30_000)]
    with web_board(tmp_path, template, lines) as web:

        async def run() -> None:
            async with page(web) as one:
                await one.send("chat", text="and then the tunnel")
            async with page(web) as two:
                assert (await two.receive())["ev"] == "changed"
                items, _ = await two.ask("page", before=0, limit=2)
                assert [m["text"] for m in items] == ["It went on.", "and then the tunnel"]
                async with page(web) as three:
                    await three.send("chat", text="another tunnel")
                await asyncio.sleep(0.3)
                start = time.monotonic()
                await two.ws.send('{"op":"stop"}')
                assert (await two.receive())["ev"] == "changed"
                assert time.monotonic() - start < 5

        asyncio.run(run())


def test_page_comes_with_the_wifi(tmp_path: Path, template: Path) -> None:
    """The page starts once the board is on a network, and outlives a drop of it."""
    world = tmp_path / "world.json"
    home = {"networks": {"Home": {"password": "Tulip-4711-xyz", "rssi": -61}}}
    world.write_text('{"networks": {}}')

    def appear() -> None:
        time.sleep(3)
        world.write_text(json.dumps(home))

    threading.Thread(target=appear).start()
    with web_board(tmp_path, template, [say(TEXT, repeat=True)], wifi=world, host="") as web:

        async def run() -> None:
            async with page(web) as one:
                assert (await one.chat("over Wi-Fi"))[1]["ok"]
                world.write_text('{"networks": {}}')
                await asyncio.sleep(4)
                world.write_text(json.dumps(home))
                await asyncio.sleep(1)
                assert (await one.chat("and again"))[1]["ok"]

        asyncio.run(run())
        assert get(web, "/", Host="desk.local")[0] == 200


def test_guests_and_memory(tmp_path: Path, template: Path) -> None:
    """B32: what the owner told is not told to guests, unless the setting says so."""
    facts = (("User keeps the spare key under the blue pot", "home"),)
    question = "Where does the user keep the spare key?"

    async def ask(web: WebBoard, token: str) -> str:
        async with page(web, token, "a1b2") as one:
            _, end = await one.chat(question)
            assert end["ok"], end
        return json.dumps(web.script.requests()[-1], ensure_ascii=False)

    for number, (setting, owner, guest) in enumerate(
        (("owner", True, False), ("all", True, True), ("nobody", False, False))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with web_board(
            folder, template, [say("Hm.", repeat=True)], facts=facts, memory=setting
        ) as web:
            assert ("blue pot" in asyncio.run(ask(web, web.owner))) is owner, setting
            assert ("blue pot" in asyncio.run(ask(web, web.guest))) is guest, setting
            assert web.serial(question).ok
            assert "blue pot" in json.dumps(web.script.requests()[-1])


def test_page_hears_of_a_new_memory(tmp_path: Path, template: Path) -> None:
    """What extraction stored after the reply is told to the pages of that chat alone."""
    fact = {"content": "User grows tomatoes on the balcony", "tags": "garden"}
    fact["keywords"] = "tomatoes; balcony"
    lines = [
        say("Nice.", repeat=True),
        {"for": "extract", "body": completion(json.dumps({"memories": [fact]}))},
    ]
    with web_board(tmp_path, template, lines) as web:

        async def run() -> None:
            async with page(web) as one, page(web, web.guest, "a1b2") as guest:
                _, end = await one.chat("I grow tomatoes on the balcony.")
                assert end["ok"], end
                news = await one.receive()
                assert news["ev"] == "note"
                assert "garden" in news["d"]
                items, _ = await one.ask("memory", do="list")
                assert [m["content"] for m in items] == [fact["content"]]
                await guest.ws.send('{"op":"ping"}')
                assert (await guest.receive())["ev"] == "pong"

        asyncio.run(run())


def test_port_that_is_taken(tmp_path: Path, template: Path) -> None:
    """One sentence on the console, no flood of them, and the serial chat goes on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        lines = [say("Yes.", repeat=True)]
        with web_board(tmp_path, template, lines, waits=False, port=taken) as web:
            for _ in range(5):
                assert web.serial("Still there?").ok
                time.sleep(0.5)
            told = [line for line in web.logs if "cannot be served" in line]
            assert len(told) == 1
            assert "web.port" in told[0]
            assert not [line for line in web.logs if "started again" in line]
