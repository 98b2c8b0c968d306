"""What goes to the model: budget, streamed request, repair of what the file holds."""

from upyclaw.prompt.budget import estimate_tokens, history_budget
from upyclaw.prompt.request import Request

__all__ = ("Request", "estimate_tokens", "history_budget")
