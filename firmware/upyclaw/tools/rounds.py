"""The tool rounds of one turn: counts them and knows when to stop (B59).

Owns the stop rules. What a round does is in results.py, loaded for its time. Must not talk to the
model.
"""

from upyclaw.compat import unload

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
        from upyclaw.tools.results import run_calls

        unload("upyclaw.tools.results", "upyclaw.tools.dispatch")
        self.count += 1
        mark, cut = await run_calls(self._registry, session, calls, context, fmt, self._note)
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
