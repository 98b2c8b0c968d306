"""Runs one tool call and turns whatever happens into a text for the model.

Owns the limits of a call: its time, the size of its result (B53), and that no fault of a tool ends
the turn (B14, B17). Must not know sessions.
"""

import asyncio
import json

from upyclaw.compat import unload
from upyclaw.storage.codec import json_escape

SECONDS = 20  # default time limit of a call


def failure(sentence):
    """The result text that tells the model `sentence`."""
    return '{"ok":false,"error":"' + json_escape(sentence).decode() + '"}'


async def run_call(registry, call, context=None):
    """Run `call` (name, arguments, problem). Returns (text, is_error); the text (str, or a
    memoryview of UTF-8) is clean, at most 4 KB and never empty. CancelledError passes through,
    nothing else does."""
    text, bad = await _run(registry, call, context)
    if isinstance(text, memoryview):
        return text, bad
    from upyclaw.storage.cap import cap_result

    unload("upyclaw.storage.cap")
    text = cap_result(text)
    return text if text.strip() else "(no output)", bad


async def _run(registry, call, context):
    if call.problem:
        return failure(call.problem), True
    tool = registry.get(call.name)
    if tool is None:
        names = ", ".join(registry.names())
        return failure("There is no tool {}. The tools are: {}.".format(call.name, names)), True
    seconds = getattr(tool, "seconds", SECONDS)
    try:
        try:
            result = await asyncio.wait_for(tool.run(call.arguments, context), seconds)
        except MemoryError:
            # Whatever our tools do may be done twice.
            if context is None:
                raise
            await context.make_room()
            result = await asyncio.wait_for(tool.run(call.arguments, context), seconds)
    except asyncio.TimeoutError:
        return failure("{} took more than {} seconds.".format(call.name, seconds)), True
    except MemoryError:
        return failure("There is not enough memory for {}.".format(call.name)), True
    except Exception as e:
        return failure("{}: {}".format(type(e).__name__, e)[:200]), True
    if not isinstance(result, (str, bytes, bytearray, memoryview)):
        result = json.dumps(result) if result is not None else ""
    return result, False
