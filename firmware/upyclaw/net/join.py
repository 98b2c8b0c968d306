"""From "no network" to "on Wi-Fi": known networks in order, again after a while; else set-up.

Loaded for that time only. Nothing in here waits for the hardware: `connect` only begins a join,
its state is looked at now and then, and no scan is made: a scan stops the board for two seconds.
"""

import network

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms, unload

_JOIN = 15000  # ms for a join with its address
_LOOK = 250  # ms between two looks at it
_FIRST = 5  # s to wait after all networks failed; doubled each time
_LONGEST = 300

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


async def join(wifi):
    """Return the name of the network joined, however long that takes. `wifi`: Wifi."""
    wifi.name = host_name(wifi.settings["hostname"] or wifi.name)
    pause = _FIRST
    while True:
        wifi.wake.clear()
        networks = _known()
        if not networks:
            await _set_up(wifi)
            continue
        _start(wifi)
        for ssid, password in networks:
            reason = await _try(wifi, ssid, password)
            if reason is None:
                wifi.log("On Wi-Fi {} as {}.".format(ssid, wifi.wlan.ifconfig()[0]))
                return ssid
            wifi.problem = "Wi-Fi {}: {}.".format(ssid, reason)
            if wifi.wake.is_set():
                break
        if wifi.wake.is_set():
            pause = _FIRST
            continue
        wifi.log(wifi.problem + " Next try in {} s.".format(pause))
        await wifi.sleep(1000 * pause)
        pause = min(2 * pause, _LONGEST)


def _known():
    from upyclaw.net import known

    networks = known.load()
    del known
    unload("upyclaw.net.known")
    return networks


def _start(wifi):
    # The name has to be set before the interface starts; the chip then answers to NAME.local.
    network.hostname(wifi.name)
    wifi.wlan.active(True)
    try:
        # One try a `connect`: this module decides what comes next.
        wifi.wlan.config(reconnects=0)
    except (ValueError, OSError):
        pass


async def _try(wifi, ssid, password):
    """None once joined, else why not, in words."""
    wlan = wifi.wlan
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
        if wifi.wake.is_set():
            return "the networks changed"
    return None


async def _set_up(wifi):
    """No network is known: offer a set-up page, then wait for one."""
    text = "No Wi-Fi network is known: `upyclaw wifi add --port PORT` on the PC adds one."
    wifi.problem = text
    if wifi.settings["access_point"] == "on":
        from upyclaw.net.portal import Portal

        portal = Portal(wifi.name, wifi.settings["portal_port"], wifi.log)
        try:
            # Whoever asks over the serial line later is told the code as well.
            wifi.problem = portal.start()
            wifi.log(wifi.problem)
            await portal.run(wifi.wake)
        except OSError as error:
            wifi.log("The set-up page could not start ({}).".format(error))
        finally:
            portal.close()
            wifi.problem = text
        del portal, Portal
        unload("upyclaw.net.portal", "upyclaw.net.known")
    await wifi.wake.wait()
