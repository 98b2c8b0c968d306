"""The board's end of the link against the simplest PC, on a line that is faulty on demand."""

import asyncio

from dice import Dice
from linkpeer import Bench

from upyclaw.channels.control import Control
from upyclaw.channels.link import LinkDown
from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms

TIMEOUT = 120


def noise(dice, n):
    return bytes([dice.below(256) for _ in range(n)])


async def test_messages_cross_a_faulty_line_once_and_in_order():
    resent = damaged = 0
    for seed in (1, 2, 3, 4):
        bench = Bench(faults=80, seed=seed)
        dice = Dice(seed)
        await bench.peer.sync()
        at_board = bench.collect(1)
        down = [noise(dice, n) for n in (0, 1, 59, 60, 61, 700)]
        up = [(stream, noise(dice, n)) for stream, n in ((1, 0), (2, 4000), (1, 237), (3, 2000))]
        tasks = [asyncio.create_task(bench.link.send(stream, data)) for stream, data in up]
        for message in down:
            await bench.peer.send(1, message)
        for task in tasks:
            await task
        assert await bench.until(lambda: len(bench.peer.messages) == len(up))
        assert at_board == down
        for stream in (1, 2, 3):
            expected = [data for number, data in up if number == stream]
            assert [data for number, data in bench.peer.messages if number == stream] == expected
        assert bench.line.lost == 0
        resent += bench.link.resent
        damaged += bench.link.damaged
        bench.stop()
    assert resent and damaged


async def test_without_faults_nothing_is_sent_twice():
    bench = Bench()
    await bench.peer.sync()
    at_board = bench.collect(1)
    text = ("粘贴的长文本 🙂 zażółć " * 99).encode()[:2000]
    await bench.peer.send(1, text)
    await bench.link.send(2, text)
    assert await bench.until(lambda: bench.peer.messages)
    assert at_board == [text] and bench.peer.messages == [(2, text)]
    assert bench.link.resent == 0 and bench.link.damaged == 0
    bench.stop()


async def test_frames_hold_no_control_bytes_and_fit_a_line():
    bench = Bench()
    await bench.peer.sync()
    message = bytes(range(256)) * 3
    await bench.link.send(1, message)
    assert await bench.until(lambda: bench.peer.messages)
    assert bench.peer.messages == [(1, message)]
    for line in bytes(bench.line.raw).split(b"\n"):
        assert len(line) < 256
        for c in line:
            assert c >= 32 and c != 127
    bench.stop()


async def test_a_refused_part_comes_again_after_release():
    bench = Bench()
    await bench.peer.sync()
    got = []
    tries = []

    def take(part, end):
        tries.append(1)
        if len(tries) in (2, 3):
            return False
        got.append(bytes(part))
        return True

    bench.link.on(2, take)
    message = noise(Dice(5), 200)
    sending = asyncio.create_task(bench.peer.send(2, message))
    assert await bench.until(lambda: len(tries) == 2)
    await sleep_ms(100)
    assert b"".join(got) == message[:60]
    # The control stream waits as well: one line, one order.
    bench.link.release(2)
    assert await bench.until(lambda: len(tries) == 3)
    bench.link.release(2)
    await sending
    assert b"".join(got) == message
    bench.stop()


async def test_two_tasks_do_not_mix_their_messages():
    bench = Bench()
    await bench.peer.sync()

    async def long(byte):
        for _ in range(4):
            await bench.link.send(2, byte * 200, False)
            await sleep_ms(1)
        await bench.link.send(2, b"", True)

    tasks = [asyncio.create_task(long(byte)) for byte in (b"a", b"b")]
    await bench.link.send(1, b"c" * 500)
    for task in tasks:
        await task
    assert await bench.until(lambda: len(bench.peer.messages) == 3)
    messages = bench.peer.messages
    assert sorted(messages) == [(1, b"c" * 500), (2, b"a" * 800), (2, b"b" * 800)]
    # The short one on its own stream did not wait for the long ones.
    assert messages[0][0] == 1
    bench.stop()


async def test_a_cancelled_sender_leaves_the_stream_to_the_next():
    bench = Bench()
    await bench.peer.sync()
    bench.line.deaf = True
    task = asyncio.create_task(bench.link.send(2, b"x" * 3000))
    await sleep_ms(20)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    bench.line.deaf = False
    await bench.link.send(2, b"whole")
    assert await bench.until(lambda: bench.peer.messages)
    assert bench.peer.messages == [(2, b"whole")]
    bench.stop()


async def test_a_new_session_ends_the_old_one():
    bench = Bench()
    states = []
    bench.link.on_state(states.append)
    await bench.peer.sync()
    bench.line.deaf = True
    task = asyncio.create_task(bench.link.send(2, b"x" * 3000))
    await sleep_ms(20)
    bench.line.deaf = False
    await bench.peer.sync()
    try:
        await task
        assert False
    except LinkDown:
        pass
    await bench.link.send(1, b"new")
    assert await bench.until(lambda: bench.peer.messages)
    assert bench.peer.messages == [(1, b"new")]
    bench.peer.bye()
    assert await bench.until(lambda: not bench.link.up)
    assert states == [True, False, True, False]
    try:
        await bench.link.send(1, b"nobody")
        assert False
    except LinkDown:
        pass
    bench.stop()


async def test_a_client_that_vanished_is_let_go():
    bench = Bench()
    await bench.peer.sync()
    bench.link.attached = True
    bench.line.peer = None
    assert await bench.until(lambda: not bench.link.up)
    assert not bench.link.attached
    bench.stop()


async def test_typed_lines_with_echo_and_backspace():
    bench = Bench()
    lines = []
    bench.link.on_line(lines.append)
    bench.line.raw = bytearray()
    bench.line.put(b"helpX\x08 m\xc3\xa9\x7fe\rsecond\r\n\r\n")
    assert await bench.until(lambda: len(lines) == 2)
    assert lines == [b"help me", b"second"]
    assert b"helpX\x08 \x08 m" in bytes(bench.line.raw)
    bench.stop()


async def test_a_line_too_long_is_refused_in_words():
    bench = Bench()
    lines = []
    bench.link.on_line(lines.append)
    for _ in range(12):
        bench.line.put(b"0123456789" * 10)
        await sleep_ms(2)
    bench.line.put(b"\rshort\r")
    assert await bench.until(lambda: lines)
    assert lines == [b"short"]
    assert b"1,024" in bytes(bench.line.raw)
    bench.line.put(b"y" * 200)
    await sleep_ms(2)
    bench.line.put(b"y" * 200 + b"\r")
    assert await bench.until(lambda: len(lines) == 2)
    assert lines[1] == b"y" * 400
    bench.stop()


async def test_b24_a_lone_lead_byte_and_a_deaf_host_stop_nothing():
    bench = Bench()
    lines = []
    bench.link.on_line(lines.append)
    bench.line.deaf = True
    bench.line.put(b"\xe4")
    turns = []

    async def other():
        while True:
            turns.append(1)
            await sleep_ms(5)

    task = asyncio.create_task(other())
    start = ticks_ms()
    await bench.link.console(b"nobody reads\r\n" * 20)
    assert 400 < ticks_diff(ticks_ms(), start) < 3000
    assert len(turns) > 20
    bench.line.put(b"\xbd\xa0\r")
    assert await bench.until(lambda: lines)
    assert lines == ["你".encode()]
    task.cancel()
    bench.stop()


async def test_in_a_session_damaged_lines_are_never_taken_as_typed():
    bench = Bench()
    lines = []
    bench.link.on_line(lines.append)
    await bench.peer.sync()
    bench.line.put(b'{"id":1,"text":"the marker got lost"}abcdef\n')
    assert await bench.until(lambda: bench.link.damaged)
    await sleep_ms(5)
    assert lines == []
    bench.stop()


async def test_a_handler_that_fails_is_logged_and_the_line_goes_on():
    bench = Bench()
    await bench.peer.sync()

    def broken(part, end):
        raise ValueError("no")

    bench.link.on(1, broken)
    await bench.peer.send(1, b"x")
    at_board = bench.collect(1)
    await bench.peer.send(1, b"y")
    assert at_board == [b"y"]
    assert "ValueError" in bench.log[0]
    bench.stop()


async def test_hello_status_and_what_is_not_json():
    bench = Bench()
    control = Control(bench.link, lambda: {"board": "bench"})
    running = asyncio.create_task(control.run())
    relays = []
    control.on_relay(relays.append)
    await bench.peer.sync()
    await bench.peer.send(0, b'{"op":"hello"')
    await bench.peer.send(
        0,
        b'{"op":"hello","version":1,"client":"test 1","time":1796026877,"tz":3600,'
        b'"relay":{"provider":"p","model":"m","context":4096}}',
    )
    await bench.peer.send(0, b'{"op":"status"}')
    await bench.peer.send(0, b"x" * 1500)
    assert await bench.until(lambda: len(bench.peer.messages) == 4)
    texts = [data for stream, data in bench.peer.messages if stream == 0]
    assert b'"error"' in texts[0] and b"not understood" in texts[0]
    assert b'"bench"' in texts[1] and b'"hello"' in texts[1] and b'"error"' not in texts[1]
    assert b'"rx_frames"' in texts[2]
    assert b"not understood" in texts[3]
    assert bench.link.attached and control.tz == 3600 and control.client == "test 1"
    assert control.relay["context"] == 4096
    await bench.peer.send(0, b'{"op":"relay","relay":null}')
    assert control.relay is None
    assert [relay and relay["model"] for relay in relays] == ["m", None]
    running.cancel()
    bench.stop()


async def test_another_version_of_hello_is_refused_in_words():
    bench = Bench()
    control = Control(bench.link)
    running = asyncio.create_task(control.run())
    await bench.peer.sync()
    await bench.peer.send(0, b'{"op":"hello","version":9,"client":"upyclaw 3.0"}')
    assert await bench.until(lambda: bench.peer.messages)
    assert b"update the older one" in bench.peer.messages[0][1]
    assert not bench.link.attached and "upyclaw 3.0" in control.problem
    running.cancel()
    bench.stop()
