"""The link alone on a board: echoes chat messages, sends bulk, blocks on demand."""

import asyncio
import gc
import time

import upyclaw.compat  # noqa: F401

# What asyncio loads on first use is not the link's, nor is compat.
asyncio.Event, asyncio.StreamReader, asyncio.gather, asyncio.create_task
gc.collect()
before = gc.mem_alloc()

from upyclaw.channels.control import Control  # noqa: E402
from upyclaw.channels.link import Link, LinkDown  # noqa: E402
from upyclaw.channels.serial import StdioPort  # noqa: E402

gc.collect()
code = gc.mem_alloc()
link = Link(StdioPort(), print)
control = Control(link, lambda: {"board": "linkboard", "data": data, "code": code - before})
gc.collect()
data = gc.mem_alloc() - code
text = bytearray()
jobs = []


def chat(part, end):
    text.extend(part)
    if end:
        jobs.append(bytes(text))
        text[:] = b""


def block(message):
    """Do nothing else for some time, again and again, as flash work does."""
    for _ in range(message["times"]):
        jobs.append(message["ms"])


async def work():
    while True:
        await asyncio.sleep_ms(5)
        if not jobs:
            continue
        job = jobs.pop(0)
        try:
            if isinstance(job, int):
                time.sleep_ms(job)
                await asyncio.sleep_ms(100)
            elif job.startswith(b"bulk "):
                line = bytes(range(256)) * 4
                for _ in range(int(job[5:])):
                    await link.send(2, line, False)
                await link.send(2, b"", True)
            else:
                await link.send(1, job)
        except LinkDown:
            pass


link.on(1, chat)
link.on_line(lambda line: print("typed:", line))
control.on("block", block)


async def main():
    await asyncio.gather(link.run(), control.run(), work())


asyncio.run(main())
