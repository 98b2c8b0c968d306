"""Keeps the board on Wi-Fi and knows how it stands; getting there is join.py's work.

Owns the station interface while it is up, and the questions for the time. Must not know who uses
the network.
"""

import asyncio

import network

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms, unload

_STEP = 250  # ms between two looks at whether the networks changed
_LOOK = 2000  # ms between two looks at the link
_TIME = 43200000  # ms between two questions for the time
_RETRY_TIME = 60000  # ms, when nobody answered


class Wifi:
    """`settings`: section network. `name`: the board's. `log(text)`: a line for the console.

    `ssid`: the network the board is on, "" if none. `problem`: why it is on none, a sentence.
    `wake`: Event, set when the known networks changed.
    """

    def __init__(self, settings, name, log):
        self.ssid = ""
        self.problem = "The board is not on Wi-Fi yet."
        self.name = name
        self.settings = settings
        self.log = log
        self.wake = asyncio.Event()
        self.wlan = network.WLAN(network.STA_IF)
        self._asked = None  # ticks of the last question for the time
        self._answered = False

    def about(self):
        """{"ssid", "ip", "rssi" (dBm), "host"} while on a network, else {"problem"}."""
        if not self.ssid:
            return {"problem": self.problem}
        try:
            rssi = self.wlan.status("rssi")
        except OSError:
            rssi = None
        address = self.wlan.ifconfig()[0]
        return {"ssid": self.ssid, "ip": address, "rssi": rssi, "host": self.name + ".local"}

    async def sleep(self, ms):
        """Sleep, or wake as soon as the known networks change."""
        start = ticks_ms()
        while not self.wake.is_set() and ticks_diff(ticks_ms(), start) < ms:
            await sleep_ms(_STEP)

    async def run(self):
        """Join and stay joined, until cancelled."""
        while True:
            from upyclaw.net import join

            try:
                ssid = await join.join(self)
            finally:
                del join
                unload("upyclaw.net.join")
            self.ssid = ssid
            try:
                await self._stay()
            finally:
                self.ssid = ""
                if not self.wake.is_set():
                    self.problem = "Wi-Fi {}: the connection was lost.".format(ssid)

    async def _stay(self):
        """Watch over the link until it is lost or the networks change."""
        while self.wlan.isconnected() and not self.wake.is_set():
            await self._time()
            await self.sleep(_LOOK)

    async def _time(self):
        server = self.settings["ntp"]
        wait = _TIME if self._answered else _RETRY_TIME
        if not server or (self._asked is not None and ticks_diff(ticks_ms(), self._asked) < wait):
            return
        self._asked = ticks_ms()
        from upyclaw.net import clock

        self._answered = await clock.fetch(server)
        del clock
        unload("upyclaw.net.clock", "upyclaw.net.dns", "upyclaw.net.udp")
