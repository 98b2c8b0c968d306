# Frozen only on request: the simulated board takes its firmware from the flash image.
include("../manifest.py")
