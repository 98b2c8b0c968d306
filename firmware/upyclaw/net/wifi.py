"""Keeps the board on Wi-Fi: known networks in order, again after a while, the time once joined.

Owns the station interface. Nothing in here waits for the hardware: `connect` only begins a join,
its state is looked at now and then, and no scan is made, because a scan stops the board for two
seconds. Must not know who uses the network.
"""

import asyncio

import network

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms, unload

_JOIN = 15000  # ms for a join with its address
_LOOK = 250  # ms between two looks at a join
_KEEP = 2000  # ms between two looks at a link that is up
_FIRST = 5  # s to wait after all networks failed; doubled each time
_LONGEST = 300
_STEADY = 60000  # ms after which a link counts as good and the waiting begins anew
_TIME = 43200000  # ms between two questions for the time
_RETRY_TIME = 60000  # ms, when nobody answered

_REASONS = {
    "STAT_NO_AP_FOUND": "it is not in reach",
    "STAT_WRONG_PASSWORD": "the password is wrong",
    "STAT_HANDSHAKE_TIMEOUT": "the password seems wrong",
    "STAT_ASSOC_FAIL": "it does not take the board",
    "STAT_BEACON_TIMEOUT": "the signal was lost",
}


def host_name(text):
    """`text` as a name for the network: letters, digits and inner hyphens, at most 32."""
    out = ""
    for ch in text.lower():
        out += ch if "a" <= ch <= "z" or "0" <= ch <= "9" else "-"
    out = "-".join([part for part in out.split("-") if part])[:32].rstrip("-")
    return out or "upyclaw"


class Wifi:
    """`settings`: section network. `name`: the board's. `log(text)`: a line for the console.

    `ssid`: the network the board is on, "" if none. `problem`: why it is on none, a sentence.
    """

    def __init__(self, settings, name, log):
        self.ssid = ""
        self.problem = "The board is not on Wi-Fi yet."
        self.portal = None
        self.name = host_name(settings["hostname"] or name)
        self._settings = settings
        self._log = log
        self._wake = asyncio.Event()
        self._wlan = network.WLAN(network.STA_IF)
        self._asked = None  # ticks of the last question for the time
        self._answered = False

    def changed(self):
        """The known networks changed: begin anew."""
        self._wake.set()

    def about(self):
        """{"ssid", "ip", "rssi" (dBm), "host"} while on a network, else {"problem"}."""
        if not self.ssid:
            return {"problem": self.problem}
        try:
            rssi = self._wlan.status("rssi")
        except OSError:
            rssi = None
        address = self._wlan.ifconfig()[0]
        return {"ssid": self.ssid, "ip": address, "rssi": rssi, "host": self.name + ".local"}

    def line(self):
        """A line for /status."""
        about = self.about()
        if "ssid" not in about:
            return "Wi-Fi: " + self.problem
        return "Wi-Fi: {ssid}, {ip}, {rssi} dBm, {host}".format(**about)

    async def run(self):
        """Join and stay joined, until cancelled."""
        pause = _FIRST
        while True:
            self._wake.clear()
            networks = self._known()
            if not networks:
                await self._set_up()
                continue
            self._start()
            for ssid, password in networks:
                reason = await self._join(ssid, password)
                if reason is None:
                    began = ticks_ms()
                    await self._stay(ssid)
                    if ticks_diff(ticks_ms(), began) > _STEADY:
                        pause = _FIRST
                    break
                self.problem = "Wi-Fi {}: {}.".format(ssid, reason)
                if self._wake.is_set():
                    break
            if self._wake.is_set():
                pause = _FIRST
                continue
            self._log(self.problem + " Next try in {} s.".format(pause))
            await self._sleep(1000 * pause)
            pause = min(2 * pause, _LONGEST)

    def _known(self):
        from upyclaw.net import known

        networks = known.load()
        del known
        unload("upyclaw.net.known")
        return networks

    def _start(self):
        # The name has to be set before the interface starts; the chip then answers to NAME.local.
        network.hostname(self.name)
        self._wlan.active(True)
        try:
            # One try a `connect`: this module decides what comes next.
            self._wlan.config(reconnects=0)
        except (ValueError, OSError):
            pass

    async def _sleep(self, ms):
        """Sleep, or wake as soon as the networks change."""
        start = ticks_ms()
        while not self._wake.is_set() and ticks_diff(ticks_ms(), start) < ms:
            await sleep_ms(_LOOK)

    async def _join(self, ssid, password):
        """None once joined, else why not, in words."""
        wlan = self._wlan
        try:
            wlan.disconnect()
            wlan.connect(ssid, password)
        except OSError as error:
            return "it could not be tried ({})".format(error)
        start = ticks_ms()
        while not wlan.isconnected():
            await sleep_ms(_LOOK)
            status = wlan.status()
            for name in _REASONS:
                if status == getattr(network, name, None):
                    return _REASONS[name]
            if ticks_diff(ticks_ms(), start) > _JOIN:
                wlan.disconnect()
                return "it gave no address"
            if self._wake.is_set():
                return "the networks changed"
        return None

    async def _stay(self, ssid):
        """Watch over the link until it is lost or the networks change."""
        self.ssid = ssid
        self._log("On Wi-Fi {} as {}.".format(ssid, self._wlan.ifconfig()[0]))
        while self._wlan.isconnected() and not self._wake.is_set():
            await self._time()
            await self._sleep(_KEEP)
        self.ssid = ""
        self.problem = "Wi-Fi {}: the connection was lost.".format(ssid)

    async def _time(self):
        server = self._settings["ntp"]
        wait = _TIME if self._answered else _RETRY_TIME
        if not server or (self._asked is not None and ticks_diff(ticks_ms(), self._asked) < wait):
            return
        self._asked = ticks_ms()
        from upyclaw.net import clock

        self._answered = await clock.fetch(server)
        del clock
        unload("upyclaw.net.clock", "upyclaw.net.dns", "upyclaw.net.udp")

    async def _set_up(self):
        """No network is known: offer a set-up page, then wait for one."""
        self.problem = (
            "No Wi-Fi network is known: `upyclaw wifi add --port PORT` on the PC adds one."
        )
        if self._settings["access_point"] == "on":
            from upyclaw.net.portal import Portal

            self.portal = Portal(self.name, self._settings["portal_port"], self._log)
            try:
                await self.portal.run(self._wake)
            except OSError as error:
                self._log("The set-up page could not start ({}).".format(error))
            self.portal = None
            del Portal
            unload("upyclaw.net.portal", "upyclaw.net.known")
        await self._wake.wait()
