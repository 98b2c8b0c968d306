"""Companion of upyclaw on the PC: command line, link, relay, simulated board, file formats."""

__version__ = "0.1.0"
