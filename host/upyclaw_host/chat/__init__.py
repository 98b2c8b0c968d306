"""Chat with a board over its link: one client for scripts, the terminal and the benchmarks."""

from upyclaw_host.chat.client import ChatClient, TurnResult

__all__ = ["ChatClient", "TurnResult"]
