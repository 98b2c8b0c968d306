"""Runs the functions of tests/device under real MicroPython and tells pytest about each of them.

Owns: the MicroPython process per test file (`process.py`) and what runs in it (`mp_main.py`).
Knows nothing of the firmware; the glue to pytest is tests/device/conftest.py.
"""
