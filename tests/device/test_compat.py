"""The compat module gives the same on both runtimes."""

import asyncio

from upyclaw import compat


def test_escaped_emoji_pairs_become_characters():
    value = compat.json_loads('{"a":["\\ud83d\\ude00",{"b":"x\\ud83dy"}]}')
    assert value == {"a": ["\U0001f600", {"b": "x\ufffdy"}]}
    assert value["a"][0].encode() == b"\xf0\x9f\x98\x80"


def test_bytes_that_are_not_utf8_become_replacement_characters():
    assert compat.utf8_clean(b"a\xffb\xc3") == "a\ufffdb\ufffd"
    assert compat.utf8_clean(memoryview("grüße 你好".encode())) == "grüße 你好"
    assert compat.utf8_clean(b"\xed\xa0\x80") in ("\ufffd", "\ufffd\ufffd\ufffd")


def test_cut_never_ends_inside_a_character():
    data = "a你b".encode()
    assert [compat.utf8_cut(data, n) for n in range(6)] == [0, 1, 1, 1, 4, 5]


def test_clock_is_unix_and_ignores_nonsense():
    compat.set_unix_time(5)
    compat.set_unix_time(1796026877)
    try:
        assert 0 <= compat.unix_time() - 1796026877 < 60
    finally:
        compat._clock_shift = 0


async def test_queue_is_bounded_and_first_in_first_out():
    queue = compat.Queue(2)
    got = []

    async def take():
        for _ in range(4):
            got.append(await queue.get())

    task = asyncio.create_task(take())
    for i in range(4):
        await queue.put(i)
        assert queue.qsize() <= 2
    await task
    assert got == [0, 1, 2, 3]
    try:
        queue.get_nowait()
    except compat.QueueEmpty:
        pass
    else:
        assert False
