"""The simulated board: MicroPython on a flash image behind a serial port (see `board.py`)."""

from upyclaw_host.flash.firmware import FirmwareSource, build_flash, update_firmware
from upyclaw_host.sim.board import SimBoard

__all__ = ["FirmwareSource", "SimBoard", "build_flash", "update_firmware"]
