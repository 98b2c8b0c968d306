"""The page's parts without a network: tokens, frames, limits, history pages, memory operations."""

import asyncio

from upyclaw.compat import json_loads
from upyclaw.memory.profile import Profile
from upyclaw.memory.store import MemoryStore
from upyclaw.storage import FINAL, RESULT, TOOL, SessionStore, user_record
from upyclaw.web.auth import GUEST, OWNER, Guard, Locked, host_ok, origin_ok
from upyclaw.web.client import Client
from upyclaw.web.conn import HEAD, Conn, Gone
from upyclaw.web.ws import MESSAGE, Socket

# ---- tokens


def locked(guard, token, peer):
    try:
        guard.check(token, peer)
    except Locked as error:
        return error.args[0]
    return 0


def test_tokens_are_made_once(root):
    path = root + "/data/tokens"
    guard = Guard(path)
    assert len(guard.owner) == len(guard.guest) == 20
    assert guard.owner != guard.guest
    again = Guard(path)
    assert (again.owner, again.guest) == (guard.owner, guard.guest)
    assert again.check(guard.owner, "a") == OWNER
    assert again.check(guard.guest, "a") == GUEST
    for wrong in ("", guard.owner[:-1], guard.owner + "0", guard.owner.upper() + "x", "é"):
        assert again.check(wrong, "b" + wrong[:2]) == 0


def test_damaged_token_file_is_replaced(root):
    path = root + "/tokens"
    for text in ("", "abc", "x" * 20, "\xff\xfe"):
        with open(path, "wb") as f:
            f.write(text.encode())
        guard = Guard(path)
        assert len(guard.owner) == 20
        assert Guard(path).owner == guard.owner


def test_lock_out(root):
    guard = Guard(root + "/tokens")
    for _ in range(5):
        assert guard.check("wrong", "mallory") == 0
    assert 0 < locked(guard, guard.owner, "mallory") <= 31
    # others come in, and a guest's success does not clear the count
    assert guard.check(guard.owner, "phone") == OWNER
    for _ in range(4):
        assert guard.check("wrong", "eve") == 0
    assert guard.check(guard.guest, "eve") == GUEST
    assert guard.check("wrong", "eve") == 0
    assert locked(guard, guard.guest, "eve")
    # many addresses do not grow the table
    for n in range(40):
        guard.check("wrong", str(n))
    assert len(guard._peers) <= 8


def test_host_and_origin():
    names = ("Desk", "upyclaw-2")
    for host in ("192.168.1.20", "192.168.1.20:8080", "localhost:80", "desk.local", "DESK"):
        assert host_ok(host, names), host
    for host in ("[fe80::1]:80", "upyclaw-2.local:80"):
        assert host_ok(host, names), host
    for host in ("", "evil.example", "desk.local.evil.example", "1.2.3.evil", "192.168.1", ":80"):
        assert not host_ok(host, names), host
    assert origin_ok(None, "desk.local")
    assert origin_ok("http://desk.local", "DESK.local")
    assert not origin_ok("https://desk.local", "desk.local")
    assert not origin_ok("http://desk.local.evil", "desk.local")
    assert not origin_ok("null", "desk.local")


# ---- one connection


class Wire:
    """Reader and writer in memory; `pieces` come one a read."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.sent = b""
        self.closed = False
        self.s = self
        self.transport = self

    def get_extra_info(self, name):
        return ("10.0.0.9", 5)

    async def read(self, n):
        if not self.pieces:
            return b""
        first = self.pieces.pop(0)
        if len(first) > n:
            self.pieces.insert(0, first[n:])
        return first[:n]

    def write(self, data):
        self.sent += bytes(data)
        return len(data)

    async def drain(self):
        pass

    def abort(self):
        self.closed = True

    close = abort


def wired(*pieces):
    wire = Wire(*pieces)
    return wire, Conn(wire, wire)


async def test_lines_and_bytes_in_any_pieces():
    for size in (1, 3, 1000):
        data = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nbody"
        wire, conn = wired(*[data[i : i + size] for i in range(0, len(data), size)])
        assert conn.peer == "10.0.0.9"
        assert await conn.readline() == b"GET / HTTP/1.1\r\n"
        assert await conn.readline() == b"Host: x\r\n"
        assert await conn.readline() == b"\r\n"
        assert await conn.readexactly(4) == b"body"
        try:
            await conn.readexactly(1)
        except Gone:
            pass
        else:
            assert False
        assert await conn.readexactly(-5) == b""


async def refuses(*pieces):
    wire, conn = wired(*pieces)
    try:
        for _ in range(1000):
            if not await conn.readline():
                return False
    except ValueError:
        return True
    return False


async def test_head_has_an_end():
    assert await refuses(b"a" * 2000)
    assert await refuses(b"X: " + b"a" * 1100 + b"\r\n")
    assert await refuses(*[b"X-A: b\r\n"] * (HEAD // 8 + 1))
    assert not await refuses(b"X: " + b"a" * 900 + b"\r\n")


def frame(op, data, last=True, mask=b"\x01\x02\x03\x04"):
    head = bytes(((128 if last else 0) | op,))
    n = len(data)
    head += bytes((128 | n,)) if n < 126 else bytes((254, n >> 8, n & 255))
    return head + mask + bytes([data[i] ^ mask[i & 3] for i in range(n)])


async def test_messages():
    text = "你好 😀 " * 60
    raw = text.encode()
    data = frame(1, b"one") + frame(1, raw[:7], False) + frame(9, b"ping?") + frame(0, raw[7:])
    for size in (1, 5, 4096):
        wire, conn = wired(*[data[i : i + size] for i in range(0, len(data), size)])
        ws = Socket(conn)
        assert bytes(await ws.receive()) == b"one"
        assert bytes(await ws.receive()) == raw
        assert wire.sent == b"\x8a\x05ping?"
        try:
            await ws.receive()
        except Gone:
            pass
        else:
            assert False


async def test_broken_frames_end_the_connection():
    for data, code in (
        (frame(1, b"x" * (MESSAGE + 1)), 1009),
        (frame(1, b"x" * MESSAGE, False) + frame(0, b"x"), 1009),
        (b"\x81\xff" + bytes(12), 1009),
        (b"\x81\x05hello" + bytes(9), 1002),
        (frame(0, b"x"), 1002),
        (frame(1, b"x", False) + frame(1, b"y"), 1002),
        (frame(3, b"x"), 1002),
        (frame(0x41, b"x"), 1002),
        (frame(9, b"x" * 126), 1002),
        (frame(9, b"x", False), 1002),
        (frame(8, b"\x03\xe8"), 1000),
    ):
        wire, conn = wired(data)
        try:
            await Socket(conn).receive()
        except Gone:
            pass
        else:
            assert False, data[:8]
        assert wire.sent == b"\x88\x02" + code.to_bytes(2, "big"), data[:8]
        assert conn.closed


async def test_streamed_message():
    wire, conn = wired()
    ws = Socket(conn)
    await ws.begin()
    await ws.part(b"abc")
    await ws.part(b"")
    await ws.part(b"d" * 200)
    await ws.end()
    await ws.send(b"e" * 300)
    assert wire.sent[:5] == b"\x01\x03abc"
    assert wire.sent[5:9] == b"\x00\x7e\x00\xc8"
    assert wire.sent[209:211] == b"\x80\x00"
    assert wire.sent[211:215] == b"\x81\x7e\x01\x2c"


# ---- operations


class Pages:
    """Stands for the server, and for the socket of its only page."""

    def __init__(self, app):
        self.app = app
        self.conn = self
        self.closed = False
        self.clients = [self]
        self.told = 0
        self.events = []
        self._text = b""
        self.between = None  # called after every piece

    def crowded(self):
        return False

    def changed(self, client):
        self.told += 1

    def start(self, chat, turn):
        turn.close()
        return False

    def limit(self, ms):
        pass

    async def send(self, data, ms=0, op=1):
        self.events.append(json_loads(bytes(data)))

    async def begin(self, ms=0):
        self._text = b""

    async def part(self, data):
        self._text += bytes(data)
        if self.between:
            self.between()

    async def end(self):
        try:
            self.events.append(json_loads(self._text))
        except ValueError:
            self.events.append("given up")


class App:
    """What a page needs of the app; also its agent, chat map and mind."""

    settings = {"name": "desk"}  # noqa: RUF012

    def __init__(self, root):
        self.sessions = SessionStore(root + "/sessions")
        self.store = self.memory = MemoryStore(root + "/memory")
        self.mind = self
        self.agent = self
        self.lines = []
        self.open = True

    def session(self, chat):
        return self.sessions.open(chat + ":default_01")

    def map(self, chat):
        return self

    def current(self):
        return "default_01", "x"

    def profile(self):
        return Profile(self.memory.root)

    def sees_memory(self, chat):
        return self.open

    async def answer(self, chat, line, sink):
        self.lines.append(line)
        sink.text("Done.")
        return {"ok": True, "error": None, "session": "default_01"}


def opened(root):
    app = App(root)
    pages = Pages(app)
    client = Client(pages, pages)
    client.chat = "chat:web:me"
    return app, pages, client


async def ask(client, op, **fields):
    """(items, end) of an operation."""
    fields["op"] = op
    fields["id"] = 7
    events = client.ws.events
    del events[:]
    await client._take(fields)
    for _ in range(2000):
        if events and events[-1] != "given up" and events[-1]["ev"] == "end":
            break
        await asyncio.sleep(0)
    assert events[-1]["ev"] == "end" and events[-1]["id"] == 7
    return events[:-1], events[-1]


def put(session, rtype, record, fmt=1):
    session.begin(rtype, fmt)
    session.write(record)
    session.end()


async def test_history_page(root):
    app, pages, client = opened(root)
    items, end = await ask(client, "page", before=0, limit=20)
    assert items == [] and end["ok"] and end["total"] == 0 and not end["more"]
    session = app.session(client.chat)
    session.add_user(user_record('Grüße 你好 "q" \\ 😀\nline'))
    put(session, TOOL, b'{"role":"assistant","content":null,"tool_calls":[]}')
    put(session, RESULT, b'[{"role":"tool","tool_call_id":"a","content":"secret"}]')
    put(session, FINAL, '{"role":"assistant","content":"Antwort \\ud83d\\ude00 ü"}'.encode())
    session.finish()
    session.add_user(user_record("two"))
    put(
        session,
        FINAL,
        b'{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"x"},'
        b'{"type":"text","text":"b"}]}',
        2,
    )
    session.finish()
    session.add_user(user_record("waits"))
    items, end = await ask(client, "page", before=0, limit=20)
    assert [(m["seq"], m["role"], m["text"]) for m in items] == [
        (5, "user", "waits"),
        (4, "assistant", "a\nb"),
        (3, "user", "two"),
        (2, "assistant", "Antwort 😀 ü"),
        (1, "user", 'Grüße 你好 "q" \\ 😀\nline'),
    ]
    assert (end["total"], end["before"], end["more"]) == (5, 1, False)
    items, end = await ask(client, "page", before=5, limit=2)
    assert [m["seq"] for m in items] == [4, 3]
    assert (end["before"], end["more"]) == (3, True)
    items, end = await ask(client, "page", before=99, limit=-4)
    assert [m["seq"] for m in items] == [5]
    _, end = await ask(client, "page", before="x")
    assert not end["ok"]


async def test_history_with_damage_and_length(root):
    app, pages, client = opened(root)
    session = app.session(client.chat)
    session.add_user(user_record("one"))
    put(session, FINAL, b'{"role":"assistant","content":"\xff bad \\ud800 half"}')
    session.finish()
    session.add_user(user_record("two"))
    put(session, FINAL, b'{"role":"assistant","content":"broken')
    session.finish()
    session.add_user(user_record("three"))
    session.begin(FINAL, 1)
    session.write(b'{"role":"assistant","content":"')
    for _ in range(70):
        session.write(b"0123456789abcdef" * 64)
    session.write(b'"}')
    session.end()
    session.finish()
    items, end = await ask(client, "page", before=0, limit=50)
    assert items[0]["bytes"] > 65536 and items[0]["text"] == ""
    assert items[2]["damaged"]
    assert "bad" in items[4]["text"] and "\ufffd" in items[4]["text"]
    assert end["ok"]


async def test_history_page_ends_after_32_kb(root):
    app, pages, client = opened(root)
    session = app.session(client.chat)
    for n in range(8):
        session.add_user(user_record("q"))
        put(session, FINAL, b'{"role":"assistant","content":"' + b"x" * 9000 + b'"}')
        session.finish()
    items, end = await ask(client, "page", before=0, limit=50)
    assert len(items) == 7, len(items)  # 4 answers pass 32,768 bytes
    assert end["more"]
    more, end = await ask(client, "page", before=end["before"], limit=50)
    assert [m["seq"] for m in items + more] == list(range(16, 1, -1))


async def test_history_notices_that_records_moved(root):
    app, pages, client = opened(root)
    session = app.session(client.chat)
    for n in range(40):
        session.add_user(user_record("question {} ".format(n) + "y" * 600))
        put(session, FINAL, b'{"role":"assistant","content":"' + b"x" * 3000 + b'"}')
        session.finish()
    trimmed = []

    def trim():
        if len(pages.events) == 3 and not trimmed:
            trimmed.append(session.trim())

    pages.between = trim
    items, end = await ask(client, "page", before=0, limit=50)
    assert trimmed and trimmed[0] > 0
    assert not end["ok"] and end["again"]
    assert "given up" in items
    items, end = await ask(client, "page", before=0, limit=3)
    assert end["ok"] and items[1]["text"].startswith("question 39")


async def test_memory_operations(root):
    app, pages, client = opened(root)
    memory = app.memory
    memory.store("User likes green tea", "tea; drinks", "tea")
    memory.store("用户住在柏林", "城市")
    items, end = await ask(client, "memory", do="list")
    assert end["total"] == 2
    assert sorted([m["content"] for m in items]) == ["User likes green tea", "用户住在柏林"]
    tea = [m for m in items if "tea" in m["content"]][0]
    assert tea["pinned"] is False
    items, _ = await ask(client, "memory", do="search", q="which tea")
    assert [m["memory"] for m in items] == [tea["memory"]]
    assert memory.get(tea["memory"])["access_count"] == tea["count"]  # looking is not recalling
    _, end = await ask(client, "memory", do="pin", memory=tea["memory"], on=True)
    assert end["ok"] and memory.get(tea["memory"])["pinned"]
    _, end = await ask(
        client, "memory", do="edit", memory=tea["memory"], content="User likes black tea"
    )
    assert end["ok"] and memory.get(tea["memory"])["content"] == "User likes black tea"
    _, end = await ask(client, "memory", do="forget", memory=tea["memory"])
    assert end["ok"] and memory.get(tea["memory"]) is None
    for verb in ("forget", "edit", "pin"):
        _, end = await ask(client, "memory", do=verb, memory=tea["memory"], content="x")
        assert not end["ok"] and end["error"], verb
    _, end = await ask(client, "memory", do="why", memory="mem-1\n/session delete x")
    assert app.lines == ["/memory why mem-1 /session delete x"]  # still one command
    _, end = await ask(client, "memory", do="drop")
    assert not end["ok"]


async def test_memory_is_not_for_everybody(root):
    """B32"""
    app, pages, client = opened(root)
    app.memory.store("User's PIN is with the neighbour", "home")
    app.open = False
    for verb in ("list", "search", "forget", "edit", "why"):
        items, end = await ask(client, "memory", do=verb, q="PIN", memory="x")
        assert items == [] and not end["ok"], verb
    for verb in ("show", "edit", "reset"):
        items, end = await ask(client, "profile", do=verb, file="user", text="x")
        assert items == [] and not end["ok"] and "d" not in end, verb
    assert len(app.memory) == 1


async def test_profile(root):
    app, pages, client = opened(root)
    _, end = await ask(client, "profile", do="show", file="soul")
    assert "plain" in end["d"]  # the default
    _, end = await ask(client, "profile", do="edit", file="user", text="Name: Ada\nLikes: 茶")
    assert end["ok"], end
    _, end = await ask(client, "profile", do="show", file="user")
    assert end["d"] == "Name: Ada\nLikes: 茶"
    _, end = await ask(client, "profile", do="reset", file="user")
    assert end["ok"] and end["d"] == ""
    for verb, name in (("show", "../../data/web_tokens"), ("edit", "x"), ("drop", "soul")):
        _, end = await ask(client, "profile", do=verb, file=name, text="y")
        assert not end["ok"] and end["error"], verb


async def test_what_is_not_understood(root):
    app, pages, client = opened(root)
    for message in ({"op": "format"}, {}, {"op": "chat"}, {"op": "chat", "text": 5}):
        events = pages.events
        del events[:]
        message["id"] = 7
        await client._take(message)
        assert events[-1]["ok"] is False
    await asyncio.sleep(0)


def test_tokens_on_a_flash_that_takes_none(root):
    with open(root + "/data", "w") as f:
        f.write("x")
    blocked = Guard(root + "/data/no/tokens")  # `make_dirs` moves the file away, or cannot
    assert len(blocked.owner) == 20
    assert blocked.check(blocked.owner, "a") == OWNER
