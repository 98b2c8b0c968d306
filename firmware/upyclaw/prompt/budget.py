"""How much history fits: tokens and bytes.

Owns the estimate. The reference (SPEC-context-and-tools §4) counts a CJK character as a token and
four other characters as one. We see lengths only, not texts, and count three bytes as a token: for
CJK (three bytes a character) that is the same, for ASCII a third more than the reference says,
which covers what roles and brackets cost. Integers only: floats have 32 bits on the chip.

Small models with a vocabulary for English may need up to a token for each CJK byte. A request that
is too long for them comes back as LLMError "context"; half the budget is the answer to that.
"""

from upyclaw.compat import const

BYTES_PER_TOKEN = 3
_PER_RECORD = const(4)  # tokens of a message's frame in the usual chat templates
LEAST = 512  # bytes; less is not worth a conversation


def estimate_tokens(lengths):
    """Tokens of records with these JSON `lengths` (iterable of bytes, or one int)."""
    if isinstance(lengths, int):
        lengths = (lengths,)
    total = 0
    for n in lengths:
        total += (n + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN + _PER_RECORD
    return total


def history_budget(context_tokens, reserve, system_bytes, tool_bytes):
    """Bytes of history that fit into a context of `context_tokens`.

    `reserve` tokens are kept for the answer; `system_bytes` and `tool_bytes` are what the sections
    and the tool list take. At least LEAST.
    """
    left = (context_tokens - reserve) * BYTES_PER_TOKEN - system_bytes - tool_bytes
    return left if left > LEAST else LEAST
