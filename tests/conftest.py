"""What all tests share: where their data lies."""

from __future__ import annotations

import os

from device_runner.process import device_environment

os.environ.update(device_environment())
