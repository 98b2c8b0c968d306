"""Model requests over the link: pieces out, streamed reply in, every way it can go wrong."""

import asyncio
import json

from linkpeer import Bench

from upyclaw.channels.control import Control
from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms
from upyclaw.llm.errors import LLMError
from upyclaw.llm.link_client import NO_RELAY, LinkClient

TIMEOUT = 120

HELLO = (
    b'{"op":"hello","version":1,"client":"t","relay":{"provider":"p","model":"m","context":4096}}'
)


class Request:
    """A request of `count` pieces."""

    def __init__(self, count=3):
        self.count = count

    def pieces(self, buf):
        for i in range(self.count):
            text = b'{"piece":%d,"text":"\xe4\xbd\xa0"}' % i
            buf[: len(text)] = text
            yield memoryview(buf)[: len(text)]

    def body(self):
        return b"".join([bytes(piece) for piece in self.pieces(bytearray(256))])


class Words:
    """A handler that keeps what it gets."""

    def __init__(self):
        self.text = ""
        self.end = None

    def on_text(self, text):
        self.text += text

    def on_reasoning(self, text):
        pass

    def on_tool(self, index, ident, name, arguments):
        pass

    def on_end(self, reason, usage):
        self.end = reason


class SlowWords(Words):
    """A handler whose taker is slow."""

    def __init__(self):
        super().__init__()
        self.open = asyncio.Event()
        self.most = 0

    async def drain(self):
        await self.open.wait()


def words(text, reason=None):
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def reply(ident, body, status=200, retry="null"):
    head = '{"id":%d,"status":%d,"retry_after":%s}\n' % (ident, status, retry)
    return head.encode() + body


DONE = b"data: [DONE]\n\n"


async def connected(faults=0):
    bench = Bench(faults)
    control = Control(bench.link)
    client = LinkClient(bench.link, control)
    bench.running = asyncio.create_task(control.run())
    await bench.peer.sync()
    await bench.peer.send(0, HELLO)
    return bench, client


def stop(bench):
    bench.running.cancel()
    bench.stop()


def requests(bench, stream=2):
    return [data for number, data in bench.peer.messages if number == stream]


def controls(bench, op):
    found = [json.loads(data) for number, data in bench.peer.messages if number == 0]
    return [message for message in found if message["op"] == op]


async def failure(task):
    try:
        await task
    except LLMError as error:
        return error
    assert False, "no LLMError"


async def test_a_request_goes_out_whole_and_the_reply_comes_in():
    bench, client = await connected(faults=40)
    assert client.available and client.model == "m" and client.context == 4096
    request, handler = Request(40), Words()
    task = asyncio.create_task(client.chat(request, handler))
    assert await bench.until(lambda: requests(bench))
    head, _, body = requests(bench)[0].partition(b"\n")
    assert json.loads(head) == {"id": 1, "kind": "chat"}
    assert body == request.body()
    text = "Grüße 🙂 " * 40
    body = b"".join([words(text[i : i + 9]) for i in range(0, len(text), 9)])
    await bench.peer.send(2, reply(1, body + words("", "stop") + DONE))
    await task
    assert handler.text == text and handler.end == "stop"
    stop(bench)


async def test_small_pieces_share_frames():
    bench, client = await connected()
    before = bench.link.tx_frames
    task = asyncio.create_task(client.chat(Request(40), Words()))
    assert await bench.until(lambda: requests(bench))
    size = len(requests(bench)[0])
    assert bench.link.tx_frames - before <= size // 230 + 2
    task.cancel()
    stop(bench)


async def test_extraction_has_a_stream_of_its_own():
    bench, client = await connected()
    chat, extract = Words(), Words()
    tasks = [
        asyncio.create_task(client.chat(Request(), chat)),
        asyncio.create_task(client.chat(Request(), extract, kind="extract")),
    ]
    assert await bench.until(lambda: requests(bench, 2) and requests(bench, 3))
    assert b'"kind":"extract"' in requests(bench, 3)[0]
    await bench.peer.send(3, reply(2, words("facts", "stop") + DONE))
    await bench.peer.send(2, reply(1, words("hello", "stop") + DONE))
    for task in tasks:
        await task
    assert (chat.text, extract.text) == ("hello", "facts")
    stop(bench)


async def test_an_error_reply_becomes_an_llm_error():
    bench, client = await connected()
    task = asyncio.create_task(client.chat(Request(), Words()))
    assert await bench.until(lambda: requests(bench))
    body = b'{"error":{"message":"Slow down, please.","kind":"rate"}}'
    await bench.peer.send(2, reply(1, body, 429, "7"))
    error = await failure(task)
    assert (error.kind, error.status, error.retry_after) == ("rate", 429, 7)
    assert "Slow down" in error.message
    assert controls(bench, "cancel") == []
    stop(bench)


async def test_a_reply_that_breaks_off_is_cut():
    bench, client = await connected()
    task = asyncio.create_task(client.chat(Request(), Words()))
    assert await bench.until(lambda: requests(bench))
    await bench.peer.send(2, reply(1, words("half a")))
    assert (await failure(task)).kind == "cut"
    stop(bench)


async def test_without_a_relay_it_is_said_what_to_do():
    bench, client = await connected()
    await bench.peer.send(0, b'{"op":"relay","relay":null}')
    assert not client.available and client.why == NO_RELAY
    error = await failure(client.chat(Request(), Words()))
    assert error.kind == "gone" and error.message == NO_RELAY
    stop(bench)


async def test_a_relay_or_link_that_leaves_in_mid_reply_ends_the_request_at_once():
    for leave in ("relay", "bye", "sync"):
        bench, client = await connected()
        task = asyncio.create_task(client.chat(Request(), Words()))
        assert await bench.until(lambda: requests(bench))
        start = ticks_ms()
        if leave == "relay":
            await bench.peer.send(0, b'{"op":"relay","relay":null}')
        elif leave == "bye":
            bench.peer.bye()
        else:
            await bench.peer.sync()
        error = await failure(task)
        assert error.kind == "gone" and "went away" in error.message
        assert ticks_diff(ticks_ms(), start) < 500
        # ... and the next one works as soon as there is a relay again.
        await bench.peer.sync()
        await bench.peer.send(0, HELLO)
        bench.peer.messages.clear()
        handler = Words()
        task = asyncio.create_task(client.chat(Request(), handler))
        assert await bench.until(lambda: requests(bench))
        await bench.peer.send(2, reply(2, words("back", "stop") + DONE))
        await task
        assert handler.text == "back"
        stop(bench)


async def test_silence_ends_in_a_timeout_and_a_cancel():
    bench, client = await connected()
    error = await failure(client.chat(Request(), Words(), timeout_ms=300))
    assert error.kind == "timeout"
    assert await bench.until(lambda: controls(bench, "cancel"))
    assert controls(bench, "cancel") == [{"op": "cancel", "id": 1}]
    stop(bench)


async def test_the_late_reply_to_a_cancelled_request_is_thrown_away():
    bench, client = await connected()
    handler = Words()
    task = asyncio.create_task(client.chat(Request(), handler))
    assert await bench.until(lambda: requests(bench))
    # The beginning is there, then the user says stop.
    late = reply(1, words("late " * 20) * 20 + words("", "stop") + DONE)
    sending = asyncio.create_task(bench.peer.send(2, late))
    assert await bench.until(lambda: handler.text)
    assert not sending.done()
    task.cancel()
    try:
        await task
        assert False
    except asyncio.CancelledError:
        pass
    handler = Words()
    task = asyncio.create_task(client.chat(Request(), handler))
    await sending
    assert await bench.until(lambda: len(requests(bench)) == 2)
    await bench.peer.send(2, reply(1, words("older still", "stop") + DONE))
    await bench.peer.send(2, reply(2, words("mine", "stop") + DONE))
    await task
    assert handler.text == "mine"
    assert controls(bench, "cancel") == [{"op": "cancel", "id": 1}]
    stop(bench)


async def test_a_slow_taker_holds_the_sender_back():
    bench, client = await connected()
    handler = SlowWords()
    task = asyncio.create_task(client.chat(Request(), handler, timeout_ms=60000))
    assert await bench.until(lambda: requests(bench))
    text = "0123456789" * 300
    body = b"".join([words(text[i : i + 50]) for i in range(0, len(text), 50)])
    sending = asyncio.create_task(bench.peer.send(2, reply(1, body + words("", "stop") + DONE)))
    await sleep_ms(300)
    taken = len(handler.text)
    assert not sending.done() and taken < 1000
    # The rest waits on the PC, not here.
    await sleep_ms(100)
    assert len(handler.text) == taken
    handler.open.set()
    await sending
    await task
    assert handler.text == text and handler.end == "stop"
    assert bench.line.lost == 0
    stop(bench)


async def test_nonsense_in_place_of_a_reply_is_skipped():
    bench, client = await connected()
    handler = Words()
    task = asyncio.create_task(client.chat(Request(), handler))
    assert await bench.until(lambda: requests(bench))
    for nonsense in (b"", b"no json\nbody", b"[1]\n", b"x" * 2000, b'{"id":9}\nwrong id'):
        await bench.peer.send(2, nonsense)
    await bench.peer.send(2, reply(1, words("right", "stop") + DONE))
    await task
    assert handler.text == "right"
    stop(bench)
