"""Start-up of the board: nothing but what must come before main.py."""
