"""Runs under MicroPython: requests through HttpClient against a server of the test.

Arguments: firmware folder, a JSON file {"model": settings, "jobs": [{"kind", "text", "timeout_ms",
"after": ms}]}. Jobs with "after" run beside the one before them. Prints a JSON object for each job
and {"gap": longest ms in which the loop did not run}.
"""

import asyncio
import json
import sys
import time

sys.path[:0] = sys.argv[1:2]

from upyclaw import config  # noqa: E402
from upyclaw.llm.errors import LLMError  # noqa: E402
from upyclaw.llm.http_client import HttpClient  # noqa: E402
from upyclaw.prompt import Request  # noqa: E402


class Handler:
    def __init__(self):
        self.text = ""
        self.ended = 0

    def on_text(self, text):
        self.text += text

    def on_reasoning(self, text):
        pass

    def on_tool(self, index, ident, name, arguments):
        self.text += f"<{name} {arguments}>"

    def on_end(self, reason, usage):
        self.ended += 1


async def job(client, number, given):
    await asyncio.sleep_ms(given.get("after", 0))
    handler = Handler()
    started = time.ticks_ms()
    out = {"job": number, "error": None}
    options = {
        "temperature": given.get("temperature", -1),
        "max_tokens": 50,
        "user": given.get("text", "hi"),
    }
    request = Request(None, [("", "Be brief.")], 1000, None, None, options)
    try:
        await client.chat(
            request, handler, given.get("kind", "chat"), given.get("timeout_ms", 1500)
        )
    except LLMError as error:
        out["error"] = error.message
        out["kind"] = error.kind
        out["status"] = error.status
    out["text"] = handler.text
    out["ended"] = handler.ended
    out["ms"] = time.ticks_diff(time.ticks_ms(), started)
    print(json.dumps(out))


async def main(given):
    settings = config.defaults()
    settings["model"].update(given["model"])
    client = HttpClient(settings, lambda: given.get("offline", ""))
    gap = 0

    async def ticker():
        nonlocal gap
        last = time.ticks_ms()
        while True:
            await asyncio.sleep_ms(5)
            now = time.ticks_ms()
            gap = max(gap, time.ticks_diff(now, last))
            last = now

    tick = asyncio.create_task(ticker())
    waiting = []
    for i, one in enumerate(given["jobs"]):
        if "after" not in one:
            for task in waiting:
                await task
            waiting = []
        waiting.append(asyncio.create_task(job(client, i, one)))
    for task in waiting:
        await task
    tick.cancel()
    print(json.dumps({"gap": gap}))


with open(sys.argv[2]) as f:
    asyncio.run(main(json.load(f)))
