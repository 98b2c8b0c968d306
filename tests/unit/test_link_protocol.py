"""The host's link against the board's, on a line that loses, doubles and garbles (B21, B24)."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from upyclaw.channels.link import LinkDown as BoardLinkDown
from upyclaw_host.errors import UserError
from upyclaw_host.link import CHAT, EXTRACT, MODEL, LinkDown

from .linkrig import BOARD_RX, Rig, faulty, run

RELAY = {"provider": "script", "model": "m", "context": 8192}


def collect(link, stream):
    """Whole messages of a stream at the board."""
    messages = []
    part = bytearray()

    def take(view, end):
        part.extend(view)
        if end:
            messages.append(bytes(part))
            part.clear()

    link.on(stream, take)
    return messages


async def connected(seed=0, relay=None, **line):
    rig = Rig(seed, **line)
    await rig.host.hello(relay, timeout=30)
    return rig


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    lose=st.sampled_from([0, 0.02, 0.08]),
    double=st.sampled_from([0, 0.1]),
    garble=st.sampled_from([0, 0.02, 0.08]),
    noise=st.sampled_from([0, 0.2]),
    down=st.lists(st.binary(max_size=700), max_size=5),
    up=st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.binary(max_size=2500)), max_size=5),
)
def test_everything_arrives_once_and_in_order(seed, lose, double, garble, noise, down, up):
    async def main():
        rig = await connected(seed, damage=faulty(lose, double, garble, noise))
        at_board = collect(rig.link, CHAT)
        at_host = {1: [], 2: [], 3: []}
        for stream, messages in at_host.items():
            rig.host.on(stream, messages.append)
        tasks = [rig.loop.create_task(rig.link.send(stream, data)) for stream, data in up]
        for message in down:
            await rig.host.send(CHAT, message)
        await rig.host.drain()
        await asyncio.gather(*tasks)
        for _ in range(200):
            if sum(map(len, at_host.values())) == len(up):
                break
            await asyncio.sleep(0.5)
        assert at_board == down
        for stream, messages in at_host.items():
            assert messages == [data for number, data in up if number == stream]
        assert rig.most_unread <= BOARD_RX and rig.dropped == 0

    run(main)


@pytest.mark.parametrize("seed", range(12))
def test_a_busy_board_never_has_more_than_its_buffer_holds(seed):
    """Traffic both ways while the board does nothing for 50..900 ms at a time."""

    async def main():
        rng = random.Random(seed)
        faults = faulty(0.03, 0.03, 0.03, 0.05) if seed % 2 else None
        rig = await connected(seed, damage=faults)
        at_board = collect(rig.link, CHAT)
        pause = rng.choice([0.05, 0.3, 0.9])
        busy = rig.loop.create_task(rig.keep_busy(1.0, pause))
        body = rng.randbytes(6000)
        at_host = []
        rig.host.on(MODEL, at_host.append)
        sending = rig.loop.create_task(rig.link.send(MODEL, body))
        message = rng.randbytes(3000)
        await rig.host.send(CHAT, message)
        await rig.host.drain()
        await sending
        for _ in range(100):
            if at_host:
                break
            await asyncio.sleep(0.5)
        busy.cancel()
        assert at_board == [message] and at_host == [body]
        assert rig.most_unread <= BOARD_RX
        assert rig.most_unread > 105 or pause < 0.3
        assert rig.dropped == 0

    run(main)


def test_b21_a_long_line_arrives_whole_while_the_board_is_busy():
    async def main():
        rig = await connected()
        at_board = collect(rig.link, CHAT)
        text = ("粘贴的长文本 🙂👍🏽 zażółć " * 99).encode()[:2000]
        busy = rig.loop.create_task(rig.keep_busy(0.4, 0.3))
        await rig.host.send(CHAT, text)
        await rig.host.drain()
        busy.cancel()
        assert at_board == [text]
        assert rig.dropped == 0 and rig.host.stats.resent == 0

    run(main)


def test_the_rig_itself_drops_what_overflows():
    """Without flow control the same line is lost: the test above can fail."""

    async def main():
        rig = await connected()
        rig.busy_until = rig.loop.time() + 1
        rig.to_board(b"x" * 2000 + b"\n")
        await asyncio.sleep(0.5)
        assert rig.dropped > 1500

    run(main)


def test_a_part_that_the_board_refuses_is_offered_again():
    async def main():
        rig = await connected()
        got = bytearray()
        calls = []
        room = [0]

        def take(view, end):
            calls.append(len(view))
            if len(view) > room[0]:
                return False
            room[0] -= len(view)
            got.extend(view)
            return True

        rig.link.on(MODEL, take)
        message = random.Random(1).randbytes(900)
        sending = rig.loop.create_task(rig.host.send(MODEL, message))
        await asyncio.sleep(30)
        assert not got and len(calls) < 20
        assert not rig.host.closed.is_set()
        while len(got) < len(message):
            room[0] += 100
            rig.link.release(MODEL)
            await asyncio.sleep(1)
        await sending
        assert bytes(got) == message
        assert rig.most_unread <= BOARD_RX

    run(main)


def test_streams_interleave_and_messages_of_one_stream_do_not_mix():
    async def main():
        rig = await connected()
        order = []
        for stream in (CHAT, MODEL, EXTRACT):
            rig.host.on_part(stream, lambda data, first, last, s=stream: order.append(s))
        chats = []
        rig.host.on(CHAT, chats.append)
        jobs = [rig.link.send(MODEL, b"m" * 3000), rig.link.send(EXTRACT, b"e" * 3000)]
        jobs += [rig.link.send(CHAT, bytes([65 + n]) * 600) for n in range(4)]
        await asyncio.gather(*[rig.loop.create_task(job) for job in jobs])
        await asyncio.sleep(1)
        assert sorted(chats) == [bytes([65 + n]) * 600 for n in range(4)]
        # all three are there from the beginning on
        assert {CHAT, MODEL, EXTRACT} <= set(order[:6])

    run(main)


def test_a_message_broken_off_by_the_board_does_not_reach_the_host():
    async def main():
        rig = await connected()
        messages = []
        rig.host.on(MODEL, messages.append)
        await rig.link.send(MODEL, b"half a request", end=False)
        rig.link.abandon(MODEL)
        await rig.link.send(MODEL, b"a whole one")
        await asyncio.sleep(1)
        assert messages == [b"a whole one"]

    run(main)


def test_hello_carries_time_limits_and_relay():
    async def main():
        rig = Rig()
        hello = await rig.host.hello(RELAY)
        assert hello["rx"] == 260 and hello["version"] == 1 and hello["firmware"]
        assert rig.link.attached and rig.control.relay == RELAY
        assert rig.control.client.startswith("upyclaw ")
        status = await rig.host.status()
        assert status["link"]["rx_frames"] > 0
        await rig.host.set_relay(None)
        await rig.host.drain()
        assert rig.control.relay is None

    run(main)


def test_another_version_is_refused_on_both_sides(monkeypatch):
    async def main():
        rig = Rig()
        monkeypatch.setattr("upyclaw.channels.control.VERSION", 2)
        with pytest.raises(UserError, match=r"version 1 .*board version 2.*update"):
            await rig.host.hello()
        assert not rig.link.attached
        assert "version 2" in rig.control.problem

    run(main)


def test_a_board_that_restarts_is_noticed_and_hello_works_again():
    async def main():
        rig = await connected()
        waiting = rig.loop.create_task(rig.host.send(CHAT, b"x" * 9000))
        await asyncio.sleep(0.1)
        rig.start_board()
        with pytest.raises(LinkDown, match="restarted"):
            await waiting
        assert rig.host.closed.is_set() and "restarted" in str(rig.host.error)
        at_board = collect(rig.link, CHAT)
        await rig.host.hello()
        await rig.host.send(CHAT, b"again")
        await rig.host.drain()
        assert at_board == [b"again"]

    run(main)


def test_a_board_that_restarts_during_hello_is_greeted_again():
    async def main():
        rig = Rig()
        resets = []

        def info():
            if not resets:
                resets.append(rig.loop.call_later(0.001, rig.start_board))
            return {"board": "rig"}

        rig.start_board(info)
        rig.link.send = None  # this board never gets to answer
        assert (await rig.host.hello())["board"] == "rig"
        assert resets and not rig.host.closed.is_set()

    run(main)


def test_a_new_client_ends_what_the_board_was_sending():
    async def main():
        rig = await connected()
        states = []
        rig.link.on_state(states.append)
        rig.host_deaf = True
        sending = rig.loop.create_task(rig.link.send(MODEL, b"y" * 9000))
        await asyncio.sleep(0.5)
        rig.host_deaf = False
        messages = []
        rig.host.on(MODEL, messages.append)
        await rig.host.hello()
        with pytest.raises(BoardLinkDown):
            await sending
        await rig.link.send(MODEL, b"new")
        await asyncio.sleep(1)
        assert messages == [b"new"]
        assert states == [False, True]

    run(main)


def test_b24_a_host_that_does_not_read_stops_nothing_on_the_board():
    async def main():
        rig = await connected()
        rig.host_deaf = True
        sending = rig.loop.create_task(rig.link.send(CHAT, b"z" * 5000))
        start = rig.loop.time()
        await rig.link.console(b"nobody reads this\r\n" * 50)
        assert rig.loop.time() - start < 1
        with pytest.raises(BoardLinkDown):
            await sending
        assert rig.loop.time() - start < 30 and not rig.link.attached

    run(main)


def test_the_board_lets_go_of_a_client_that_vanished_and_keeps_one_that_is_quiet():
    async def main():
        rig = await connected()
        await asyncio.sleep(60)
        assert rig.link.attached and not rig.host.closed.is_set()
        rig.damage = lambda line, rng: []
        await asyncio.sleep(20)
        assert not rig.link.attached
        assert rig.host.closed.is_set() and "does not answer" in str(rig.host.error)

    run(main)


def test_goodbye_is_noticed_at_once():
    async def main():
        rig = await connected()
        await rig.host.close_session()
        await asyncio.sleep(0.1)
        assert not rig.link.attached and rig.host.error is None

    run(main)


def test_a_pulled_cable_fails_everything_with_one_sentence():
    async def main():
        rig = await connected()
        asking = rig.loop.create_task(rig.host.send(CHAT, b"x" * 9000))
        await asyncio.sleep(0.05)
        rig.transport.pulled = True
        rig.transport.on_error("Input/output error")
        for attempt in (asking, rig.host.send(CHAT, b"more"), rig.host.hello()):
            with pytest.raises(LinkDown, match="cable"):
                await attempt

    run(main)


def test_noise_becomes_log_lines_and_no_message():
    async def main():
        rig = await connected()
        rig.to_host(b"ets Jul 29 2019 12:21:46\r\nI (123) wifi: ready\r\nno line end: ")
        await rig.link.send(CHAT, b"words")
        await asyncio.sleep(0.5)
        assert rig.logs == ["ets Jul 29 2019 12:21:46", "I (123) wifi: ready", "no line end:"]

    run(main)


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (b"", "No answer from rig within 8 s"),
        (b"login: \r\nPassword: \r\n", "is not upyclaw .*Password"),
    ],
)
def test_what_is_not_our_board_is_named(says, expected):
    async def main():
        rig = Rig()
        for task in rig.tasks:
            task.cancel()
        rig.to_host(says)
        with pytest.raises(UserError, match=expected):
            await rig.host.hello()

    run(main)


class Prompt:
    """A board at the MicroPython prompt; `restart(rig)` is what Ctrl-D does."""

    def __init__(self, rig, restart):
        self.rig = rig
        for task in rig.tasks:
            task.cancel()
        self.restart = restart
        self.ctrl_d = 0
        self.at_prompt = True
        self.through = rig.to_board
        rig.to_board = self.gets

    def gets(self, data):
        if not self.at_prompt:
            self.through(data)
        elif b"\x04" in data:
            self.ctrl_d += 1
            self.rig.to_host(b"\r\nMPY: soft reboot\r\n")
            self.at_prompt = self.restart(self.rig)
        else:
            self.rig.to_host(b"SyntaxError: invalid syntax\r\n")
        if self.at_prompt:
            # the line stays unfinished
            self.rig.transport.on_data(b">>> ")


def test_a_board_left_at_the_prompt_is_started_again_once():
    async def main():
        rig = Rig()
        prompt = Prompt(rig, lambda rig: rig.start_board())
        await rig.host.hello()
        assert prompt.ctrl_d == 1
        assert any("Ctrl-D" in line for line in rig.logs)

    run(main)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"", "runs MicroPython but not upyclaw"),
        (
            b'Traceback (most recent call last):\r\n  File "main.py", line 3, in <module>\r\n'
            b'  File "upyclaw/app.py", line 9, in <module>\r\nImportError: no module x\r\n',
            r"fails to start \(ImportError: no module x\)",
        ),
    ],
)
def test_a_board_without_our_firmware_is_named(output, expected):
    async def main():
        rig = Rig()
        prompt = Prompt(rig, lambda rig: rig.to_host(output) or True)
        with pytest.raises(UserError, match=expected):
            await rig.host.hello()
        assert prompt.ctrl_d == 1

    run(main)
