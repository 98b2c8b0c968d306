"""The tool rounds of one turn: runs calls, writes their results, and knows when to stop (B59).

Owns the TOOL_RESULT record (SPEC-session §4) and the stop rules. Must not talk to the model.
"""

import binascii

from upyclaw.storage.codec import RESULT, json_escape
from upyclaw.tools.dispatch import run_call

SAME_LIMIT = 4  # rounds in a row with equal calls and equal results
CUT_LIMIT = 3  # rounds in a row whose calls were cut off (B17)


class ToolRounds:
    """Counts the rounds of one turn; make a new one for each turn.

    `run` after each reply with calls: None means ask the model again, a sentence means that the
    turn ends with it.
    """

    def __init__(self, registry, limit=10, note=None):
        self.count = 0
        self._registry = registry
        self._limit = limit
        self._note = note  # called with a call's name before it runs
        self._same = self._cut = 0
        self._before = None

    async def run(self, session, calls, context=None, fmt=1):
        """Run `calls` (of TurnHandler) and write their results, durable on return.

        Raises what the session raises, and CancelledError: no half record stays then.
        """
        self.count += 1
        mark = 0
        cut = True
        session.begin(RESULT, fmt)
        try:
            head = b'[{"role":"tool","tool_call_id":"'
            for call in calls:
                if self._note and not call.problem:
                    self._note(call.name)
                text, bad = await run_call(self._registry, call, context)
                tool = self._registry.get(call.name)
                if tool and context and not getattr(tool, "trusted", False):
                    # What it read may be anybody's words: memory takes no orders from it (B31).
                    context.untrusted = True
                data = text.encode()
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
        return self._stop(mark, cut)

    def _stop(self, mark, cut):
        self._cut = self._cut + 1 if cut else 0
        self._same = self._same + 1 if mark == self._before else 1
        self._before = mark
        if self._cut >= CUT_LIMIT:
            return (
                "I stopped: the model's tool calls were cut off {} times; "
                "a larger model.max_tokens may help.".format(CUT_LIMIT)
            )
        if self._same >= SAME_LIMIT:
            return "I stopped: the same tool call gave the same result {} times.".format(
                SAME_LIMIT
            )
        if self.count >= self._limit:
            return "I stopped after {} rounds of tool calls without an answer.".format(self._limit)
        return None
