"""One tool round: runs the calls of a reply and writes their results.

Owns the TOOL_RESULT record (SPEC-session §4).
"""

import binascii

from upyclaw.storage.codec import RESULT, json_escape
from upyclaw.tools.dispatch import run_call


async def run_calls(registry, session, calls, context, fmt, note):
    """See ToolRounds.run. `note(name)`, or None: called before a call runs.

    Returns (a number that is equal for equal calls with equal results, were all calls cut off).
    """
    mark = 0
    cut = True
    session.begin(RESULT, fmt)
    try:
        head = b'[{"role":"tool","tool_call_id":"'
        for call in calls:
            if note and not call.problem:
                note(call.name)
            text, bad = await run_call(registry, call, context)
            tool = registry.get(call.name)
            if tool and context and not getattr(tool, "trusted", False):
                # What it read may be anybody's words: memory takes no orders from it (B31).
                context.untrusted = True
            data = text.encode() if isinstance(text, str) else text
            key = "{} {} ".format(call.name, call.raw).encode()
            mark = binascii.crc32(data, binascii.crc32(key, mark))
            cut = cut and bool(call.problem)
            session.write(head + json_escape(call.id) + b'","content":"')
            for i in range(0, len(data), 256):
                session.write(json_escape(memoryview(data)[i : i + 256]))
            session.write(b'","is_error":' + (b"true}" if bad else b"false}"))
            head = b',{"role":"tool","tool_call_id":"'
        session.write(b"]")
    except BaseException:
        session.drop()
        raise
    session.end(RESULT)
    session.sync()
    return mark, cut
