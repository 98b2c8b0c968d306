"""Which serial port the board is on, when nobody said.

Owns the list of USB makers whose chips sit on ESP32 boards. Opens no port.
"""

from __future__ import annotations

from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from upyclaw_host.errors import UserError

# USB vendor ids: Espressif, Silicon Labs (CP210x), WCH (CH34x), FTDI, Prolific, Arduino, Adafruit.
_VENDORS = {0x303A, 0x10C4, 0x1A86, 0x0403, 0x067B, 0x2341, 0x239A}


def board_ports() -> list[ListPortInfo]:
    """Ports that may have a board, the likely ones alone if there are such."""
    usb = [info for info in list_ports.comports() if info.vid is not None]
    likely = [info for info in usb if info.vid in _VENDORS]
    return sorted(likely or usb, key=lambda info: info.device)


def describe(info: ListPortInfo) -> str:
    """One line about a port, for a list to choose from."""
    return f"{info.device} ({info.description or info.product or 'USB serial'})"


def find_port() -> str:
    """The only port with a board. Raises UserError with the list if there are several."""
    found = board_ports()
    if not found:
        raise UserError(
            "No board was found on any USB port: plug it in with a cable that carries data, or "
            "name its port with --port."
        )
    if len(found) > 1:
        listed = "; ".join(describe(info) for info in found)
        raise UserError(f"There are several ports, name one with --port: {listed}.")
    return found[0].device
