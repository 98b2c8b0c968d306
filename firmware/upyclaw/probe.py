"""Watches the heap during a turn, for `upyclaw bench ram`. Imported only when the bench asks."""

import asyncio
import gc

from upyclaw.compat import sleep_ms


class Probe:
    """Samples the heap in use, garbage collected before each sample, until `stop`."""

    def __init__(self):
        gc.collect()
        self.idle = self.peak = gc.mem_alloc()
        self.samples = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        while True:
            gc.collect()
            used = gc.mem_alloc()
            self.samples += 1
            if used > self.peak:
                self.peak = used
            await sleep_ms(0)

    def stop(self):
        """End; what was seen, in bytes, as a control message."""
        self._task.cancel()
        gc.collect()
        return {
            "op": "probe",
            "heap": gc.mem_alloc() + gc.mem_free(),
            "idle": self.idle,
            "peak": self.peak,
            "samples": self.samples,
        }
