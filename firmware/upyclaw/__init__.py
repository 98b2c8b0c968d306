"""upyclaw: an LLM agent with a lasting memory, on MicroPython (and, unchanged, on CPython)."""

__version__ = "0.1.0"
