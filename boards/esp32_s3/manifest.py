# Frozen build: MicroPython's own modules and upyclaw, compiled into the image.
#   make -C ports/esp32 BOARD=ESP32_GENERIC_S3 FROZEN_MANIFEST=THIS_FILE
include("$(PORT_DIR)/boards/manifest.py")
include("../manifest.py")
