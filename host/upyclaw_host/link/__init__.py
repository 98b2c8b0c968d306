"""The serial link to a board, the host's side (docs/link.md)."""

from upyclaw_host.link.hostlink import CHAT, CONTROL, EXTRACT, MODEL, HostLink, LinkDown
from upyclaw_host.link.ports import SerialTransport, Transport
from upyclaw_host.link.records import Stats

__all__ = [
    "CHAT",
    "CONTROL",
    "EXTRACT",
    "MODEL",
    "HostLink",
    "LinkDown",
    "SerialTransport",
    "Stats",
    "Transport",
]
