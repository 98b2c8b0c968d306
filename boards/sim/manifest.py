# The simulated board has its MicroPython from PyPI: its firmware lies on the flash image, not frozen.
include("../manifest.py")
