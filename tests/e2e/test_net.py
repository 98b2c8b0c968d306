"""Wi-Fi and the model over the network, on the simulated board: scripted radio, real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import json
import re
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from unit.relay_rig import Answer, FakeServer, Seen, fault, sse, words

from e2e.rig import say, talk, with_client
from upyclaw_host.chat import ChatClient
from upyclaw_host.cli.wifi import command as wifi
from upyclaw_host.flash.image import open_image
from upyclaw_host.link import HostLink
from upyclaw_host.relay import Relay
from upyclaw_host.relay.http import HttpRelay, RelayServer
from upyclaw_host.relay.tokens import Tokens
from upyclaw_host.sim import SimBoard

SECRET = "Tulip-4711-xyz"
KEY = "sk-test-0123456789abcdefSECRET"


class World:
    """The networks around a board, and the board."""

    def __init__(self, flash: Path, folder: Path) -> None:
        self.flash = flash
        self.file = folder / "world.json"
        self.log: list[str] = []
        self.board: SimBoard | None = None
        self.networks(Home={"password": SECRET, "rssi": -61})

    def networks(self, **networks: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"networks": networks}))

    def start(
        self, known: list[tuple[str, str]] | None = None, heap: str = "600k", **settings: Any
    ) -> SimBoard:
        network = {"ntp": "", "access_point": "off", **settings.pop("network", {})}
        config = {"network": network, "web": {"enabled": "off"}, **settings}
        with open_image(self.flash, write=True) as image:
            image.write("/config.json", json.dumps(config).encode())
            if known is not None:
                listed = [{"ssid": name, "password": word} for name, word in known]
                image.write("/wifi.json", json.dumps({"networks": listed}).encode())
        self.board = SimBoard(self.flash, network=self.file, update=False)
        # What fits a board without PSRAM is for test_classic_esp32; here it is about behaviour.
        self.board.spec = dataclasses.replace(self.board.spec, heap=heap)
        self.board.start()
        return self.board

    @property
    def port(self) -> str:
        assert self.board is not None
        return self.board.port

    def until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 15) -> dict:
        """Ask the board for its network until `wanted`; the serial line answers all the time."""

        async def run() -> dict[str, Any]:
            link = await HostLink.open(self.port, on_log=self.log.append)
            try:
                await link.hello(None)
                end = time.monotonic() + seconds
                while True:
                    asked = time.monotonic()
                    net = (await link.status())["net"]
                    assert time.monotonic() - asked < 1
                    if wanted(net):
                        return net
                    assert time.monotonic() < end, net
                    await asyncio.sleep(0.1)
            finally:
                await link.close()

        return asyncio.run(run())

    def on(self, name: str) -> dict[str, Any]:
        return self.until(lambda net: net.get("ssid") == name)

    def because(self, words: str) -> dict[str, Any]:
        return self.until(lambda net: words in net.get("problem", ""))


@pytest.fixture
def world(flash: Path, tmp_path: Path) -> Iterator[World]:
    made = World(flash, tmp_path)
    yield made
    if made.board is not None:
        made.board.stop()


def asked(server: FakeServer) -> list[Seen]:
    """The chat requests a server got; what the memory worker asked is left out."""
    return [seen for seen in server.seen if seen.headers.get("x-upyclaw-kind") != "extract"]


@contextlib.contextmanager
def model_server(answers: list[Answer]) -> Iterator[FakeServer]:
    """A model server in a thread of its own: `answers` for the chat, nothing to remember."""

    def reply(seen: Seen) -> Answer:
        if seen not in asked(server):
            return words('{"items":[]}')
        return answers[min(len(asked(server)), len(answers)) - 1]

    server = FakeServer(reply)

    async def finish() -> None:
        await server.stop()
        # Nothing may be left for the garbage collector, which would run it in any thread.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(5)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(finish(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


def test_known_networks_in_order(world: World) -> None:
    world.networks(
        Open={"password": ""}, NoAddress={"dhcp": False}, Home={"password": SECRET, "rssi": -61}
    )
    world.start([("Away", "12345678"), ("Home", "wrong-word"), ("Open", "")])
    net = world.on("Open")
    assert net["ip"] == "127.0.0.1" and net["rssi"] == -60 and net["host"] == "upyclaw.local"
    (turn,) = talk(world.port, None, "/status")
    assert "Wi-Fi: Open, 127.0.0.1, -60 dBm, upyclaw.local" in turn.text


def test_wrong_password_then_the_right_one(world: World) -> None:
    world.start([("Home", "wrong-word")])
    world.because("Wi-Fi Home: the password is wrong.")
    run = CliRunner()
    result = run.invoke(wifi, ["add", "Home", "--port", world.port], input=SECRET + "\n")
    assert result.exit_code == 0, result.output
    assert "On Home as 127.0.0.1" in result.output and SECRET not in result.output
    listed = run.invoke(wifi, ["list", "--port", world.port, "--json"])
    assert json.loads(listed.output)["networks"] == ["Home"]
    assert SECRET not in listed.output
    # It is remembered.
    assert world.board is not None
    world.board.kill()
    world.on("Home")
    assert not any(SECRET in line for line in world.log)
    result = run.invoke(wifi, ["forget", "Home", "--port", world.port])
    assert result.exit_code == 0
    world.because("No Wi-Fi network is known")
    with open_image(world.flash) as image:
        assert SECRET.encode() not in image.read("/wifi.json")


def test_add_reports_failure(world: World) -> None:
    world.start()
    run = CliRunner()
    add = ["add", "Home", "--port", world.port, "--password-stdin"]
    result = run.invoke(wifi, add, input="not-the-word\n")
    assert result.exit_code == 1 and "the password is wrong" in result.output
    assert "wifi forget Home` takes it out" in result.output
    result = run.invoke(wifi, add, input="short\n")
    assert "8 to 63" in str(result.exception)
    result = run.invoke(wifi, ["forget", "Nowhere", "--port", world.port])
    assert "Nowhere" in str(result.exception)


def test_lost_and_back(world: World) -> None:
    world.start([("Home", SECRET)])
    world.on("Home")
    world.networks()
    world.until(lambda net: "problem" in net)
    world.networks(Home={"password": SECRET, "rssi": -80})
    assert world.on("Home")["rssi"] == -80


def test_no_address(world: World) -> None:
    world.networks(Home={"password": SECRET, "dhcp": False})
    world.start([("Home", SECRET)])
    world.until(lambda net: "it gave no address" in net["problem"], 25)


def test_broken_list_of_networks(world: World) -> None:
    with open_image(world.flash, write=True) as image:
        image.write("/wifi.json", b'{"networks": [{"ssid": 7}, 3')
    world.start()
    world.because("No Wi-Fi network is known")


def test_time_server(world: World) -> None:
    """A server of ours, years ahead of the PC, so that it can be told apart."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    future = 2000000000

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                question, who = server.recvfrom(100)
                head = struct.pack(">BBBb3I", 0x24, 2, 6, -20, 0, 0, 0)
                stamps = bytes(8) + question[40:48] + bytes(8)
                server.sendto(head + stamps + struct.pack(">II", future + 2208988800, 0), who)

    threading.Thread(target=serve, daemon=True).start()
    world.start([("Home", SECRET)], network={"ntp": f"127.0.0.1:{server.getsockname()[1]}"})
    # Who does not say hello does not tell the time either: asked by hand, at the console.
    world.on("Home")

    async def clock(client: ChatClient) -> str:
        return (await client.turn("/status")).text

    assert world.board is not None
    world.board.kill()
    time.sleep(4)
    text = console(world.port, "/status")
    server.close()
    words = re.search(r"clock: ([\d: -]+) UTC", text)[1]  # type: ignore[index]
    told = datetime.datetime.fromisoformat(words + "+00:00").timestamp()
    assert future <= told < future + 100


def console(port: str, line: str) -> str:
    """Type a line at a bare terminal and read what comes within two seconds."""
    import serial

    with serial.Serial(port, 115200, timeout=0.2) as terminal:
        terminal.write(line.encode() + b"\r")
        end = time.monotonic() + 2
        out = b""
        while time.monotonic() < end:
            out += terminal.read(4096)
    return out.decode("utf-8", "replace")


def test_model_over_wifi(world: World) -> None:
    answers = [words("Over ", "the air"), fault(401, {"error": f"bad key {KEY}"}), words("again")]
    with model_server(answers) as server:
        model = {"base_url": server.url, "api_key": KEY, "name": "tiny"}
        world.start([("Home", SECRET)], model=model, prompt={"tools": "off"})
        world.on("Home")
        first, bad, last = talk(world.port, None, "hello", "what now", "and now")
        assert first.ok and first.text == "Over the air"
        assert not bad.ok and "401" in bad.error and server.url in bad.error
        assert KEY not in bad.error and KEY[-6:] not in bad.error
        assert last.ok and last.text == "again"
        assert asked(server)[0].headers["authorization"] == f"Bearer {KEY}"
        messages = asked(server)[2].body["messages"]
        said = [m["content"] for m in messages if m["role"] == "user"]
        assert said == ["hello", "what now", "and now"]
        (status,) = talk(world.port, None, "/status")
        assert "model: tiny" in status.text and KEY not in status.text


def test_no_wifi_is_said_and_nothing_stored(world: World) -> None:
    world.networks()
    model = {"base_url": "http://127.0.0.1:9", "api_key": KEY}
    world.start([("Home", SECRET)], model=model)
    world.because("it is not in reach")
    (turn,) = talk(world.port, None, "hello")
    assert not turn.ok and "Wi-Fi Home" in turn.error
    (info,) = talk(world.port, None, "/session info")
    assert " 0 records" in info.text


def test_a_relay_on_the_cable_comes_first(
    world: World, scripted: Callable[[list[dict[str, Any]]], Any]
) -> None:
    with model_server([words("from the server")]) as server:
        world.start([("Home", SECRET)], model={"base_url": server.url}, prompt={"tools": "off"})
        world.on("Home")
        script = scripted([say("from the PC")])
        (turn,) = talk(world.port, script.relay(), "one")
        assert turn.text == "from the PC"
        (turn,) = talk(world.port, None, "two")
        assert turn.text == "from the server"


def test_wifi_lost_in_the_middle_of_an_answer(world: World) -> None:
    """The server falls silent as it does when the radio is gone; the serial line lives on."""
    half = Answer(200, [b'data: {"choices":[{"delta":{"content":"half "}}]}\n\n', 30.0])
    with model_server([half, words("after")]) as server:
        model = {"base_url": server.url, "timeout": 5}
        world.start([("Home", SECRET)], model=model, prompt={"tools": "off"})
        world.on("Home")

        async def run(client: ChatClient) -> None:
            turn = asyncio.create_task(client.turn("hello"))
            for _ in range(8):
                await asyncio.sleep(0.5)
                asked = time.monotonic()
                await client.link.status()
                assert time.monotonic() - asked < 0.5
            bad = await turn
            assert not bad.ok and bad.text == "half " and "5 seconds" in bad.error
            good = await client.turn("still there?")
            assert good.ok and good.text == "after"

        with_client(world.port, None, run)


def test_relay_over_wifi(
    world: World, tmp_path: Path, scripted: Callable[[list[dict[str, Any]]], Any]
) -> None:
    """One client for all: the board asks `upyclaw relay --listen` with its token."""
    script = scripted([say("through the relay")])
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.add("desk")
    relay: Relay = script.relay()
    server = RelayServer(HttpRelay(relay, tokens), "127.0.0.1", 0)
    model = {"base_url": f"http://127.0.0.1:{server.port}", "api_key": token}
    # The board first: its firmware is built in this thread, while the server's imports modules.
    world.start([("Home", SECRET)], model=model)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        world.on("Home")
        (turn,) = talk(world.port, None, "hi")
        assert turn.ok and turn.text == "through the relay"
        assert script.messages() == [("user", "hi")]
    finally:
        server.stop()
        thread.join(5)


def free_port() -> int:
    """A TCP port whose successor is free for UDP as well."""
    for _ in range(50):
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = int(tcp.getsockname()[1])
            with contextlib.suppress(OSError):
                udp.bind(("127.0.0.1", port + 1))
                return port
    raise AssertionError("no free ports")


def test_set_up_page(world: World) -> None:
    port = free_port()
    world.start(network={"access_point": "on", "portal_port": port})
    problem = world.because("No Wi-Fi network is known")["problem"]
    assert re.search(r"join upyclaw-setup with the code \d{8} and", problem)
    assert f"http://127.0.0.1:{port}/" in problem
    # Every name leads to the board.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(3)
        udp.sendto(b"ab\1\0\0\1\0\0\0\0\0\0\3www\7example\0\0\1\0\1", ("127.0.0.1", port + 1))
        assert udp.recv(512)[-4:] == b"\x7f\0\0\1"
    url = f"http://127.0.0.1:{port}/generate_204"
    with urllib.request.urlopen(url, timeout=5) as answer:
        page = answer.read().decode()
    assert "<form" in page and SECRET not in page
    # Abuse: endless head, half-open, garbage; the serial line answers meanwhile.
    abusers = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
    abusers[0].sendall(b"GET / HTTP/1.1\r\nX: ")
    with contextlib.suppress(OSError):
        abusers[1].sendall(b"x" * 1000000)
    world.because("No Wi-Fi network is known")
    for abuser in abusers:
        abuser.close()
    for form in (b"s=&p=", b"s=%zz", b"s=Home&p=short"):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", form, timeout=5)
    world.because("No Wi-Fi network is known")
    form = b"s=Home&p=" + SECRET.encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", form, timeout=5) as answer:
        assert "joins" in answer.read().decode()
    world.on("Home")
    # Gone with the access point.
    time.sleep(1)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    assert not any(SECRET in line for line in world.log)


def test_classic_esp32(world: World) -> None:
    """Wi-Fi and a model server beside all the rest in the heap of the board without PSRAM."""
    call = {"index": 0, "id": "c1", "function": {"name": "get_time", "arguments": "{}"}}
    tool = Answer(
        parts=sse(
            {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        ),
        chunked=True,
    )
    with model_server([words("one"), tool, words("It is late."), words("three")]) as server:
        model = {"base_url": server.url, "api_key": KEY, "name": "tiny"}
        world.start([("Home", SECRET)], heap="192k", model=model)
        world.on("Home")
        turns = talk(world.port, None, "hello", "how late is it?", "/status", "thank you")
        assert [turn.error for turn in turns] == [None] * 4
        assert [turn.text for turn in turns][1::2] == ["It is late.", "three"]
