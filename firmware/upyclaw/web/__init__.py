"""The page on the board: a small web server for a phone's browser.

Owns HTTP, the WebSocket, the token and the JSON operations behind the page (docs/web.md). Works on
sessions, memory and turns through the app's objects. Loaded only when the page is served.
"""

import asyncio
import gc
import sys

from upyclaw.compat import const, mem_free, sleep_ms

# Free bytes of heap at start that the page (23 KB), a turn with what it loads (26 KB) and four
# visitors need; `bench/web.py` measures. Below the second figure the page and the serial chat do
# not fit side by side: turns would fail. Words of the PC's build are twice as long as a chip's.
_ROOM = const(52000)
_LEAST = const(49000)


def room(asked):
    """Free bytes of heap below which the page is not started; `asked`: the user insists."""
    least = _LEAST if asked else _ROOM
    return least * 17 // 10 if sys.maxsize > 0xFFFFFFFF else least


async def serve(app):
    """Serve the page until the board's address changes; settings are in app.settings["web"].

    `app`: app.py. Where the heap is too small this says so and waits for ever.
    """
    settings = app.settings["web"]
    asked = settings["enabled"] == "on"
    gc.collect()
    if 0 < mem_free() < room(asked):
        why = "The page is off: it needs {} free bytes of heap and there are {}{}.".format(
            room(asked),
            mem_free(),
            ""
            if asked or mem_free() < room(True)
            else '; web.enabled = "on" in /config.json starts it with less',
        )
        app.log("upyclaw page: " + why)
        app.control.on("web", lambda message: app.control.post({"op": "web", "why": why}))
        await asyncio.Event().wait()
    from upyclaw.web.server import Server

    while not _address(app):
        await sleep_ms(1000)
    address = _address(app)
    server = app.pages = Server(app)
    links = {"op": "web"}

    def tell(port):
        home = "http://{}{}/#".format(address, "" if port == 80 else ":{}".format(port))
        links["url"] = home + server.guard.owner
        links["guest"] = home + server.guard.guest
        app.log("upyclaw page: {}".format(links["url"]))
        app.control.on("web", lambda message: app.control.post(links))

    # Off the network for a while is no reason to let go of the pages: it is the same address.
    try:
        await server.run(address, settings["port"], tell, lambda: _address(app) in ("", address))
    except OSError as error:
        app.log(
            "upyclaw page: port {} of {} cannot be served ({}); web.port and web.host in "
            "/config.json say where. Next try in 60 s.".format(settings["port"], address, error)
        )
        await sleep_ms(60000)


def _address(app):
    """Our address on the network, "" while there is none."""
    fixed = app.settings["web"]["host"]
    if fixed or app.net is None:
        return fixed
    address = app.net.about().get("ip", "")
    return "" if address == "0.0.0.0" else address  # off the network, not noticed yet
