"""Where the firmware source and the board folders lie, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_INSTALLED = _HERE / "_data"
_CHECKOUT = _HERE.parents[1]


def boards_dir() -> Path:
    """Folder that holds one folder a board."""
    installed = _INSTALLED / "boards"
    return installed if installed.is_dir() else _CHECKOUT / "boards"


def boot_dir() -> Path:
    """Folder that holds the board's `boot.py` and `main.py`."""
    installed = _INSTALLED / "firmware"
    return installed if installed.is_dir() else _CHECKOUT / "firmware"


def device_package() -> Path:
    """Folder of the device package `upyclaw` (source, not imported here)."""
    sibling = _HERE.parent / "upyclaw"
    return sibling if sibling.is_dir() else _CHECKOUT / "firmware" / "upyclaw"
