"""Ways in and out of the board: the serial line (link.py, serial.py, control.py)."""
