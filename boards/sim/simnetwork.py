"""The module `network` of the simulated board: a scripted world of Wi-Fi networks.

The world is a JSON file that the test may write anew at any time:

    {"networks": {"Home": {"password": "secret", "rssi": -60, "dhcp": true, "join_ms": 50}},
     "dns": "0.0.0.0"}

A network that is taken out drops whoever is on it. `password` "" is an open network; `dhcp` false
never gives an address. Sockets are those of the PC: every board is 127.0.0.1.
"""

import json
import time

STA_IF = 0
AP_IF = 1
STAT_IDLE = 1000
STAT_CONNECTING = 1001
STAT_GOT_IP = 1010
STAT_NO_AP_FOUND = 201
STAT_WRONG_PASSWORD = 202
STAT_BEACON_TIMEOUT = 200
STAT_ASSOC_FAIL = 203
STAT_HANDSHAKE_TIMEOUT = 204
AUTH_OPEN = 0
AUTH_WPA2_PSK = 3

_file = None
_world: dict = {"networks": {}}
_name = "upyclaw"
_interfaces: dict = {}


def open_world(path):
    """Use the world in the host's file `path`. For simboot alone."""
    global _file
    _file = open(path, "rb")


def _networks():
    global _world
    _file.seek(0)
    try:
        _world = json.load(_file)
    except ValueError:
        # It is being written at this moment: the world stays as it was.
        pass
    return _world["networks"]


def hostname(name=None):
    """The name on the network, set or read."""
    global _name
    if name is None:
        return _name
    if not 0 < len(name) <= 32:
        raise ValueError("hostname")
    _name = name


def country(code=None):
    """Taken and forgotten."""


class _Interface:
    def __init__(self, number):
        self._number = number
        self._on = False
        self._ssid = None
        self._status = STAT_IDLE
        self._due = 0
        self._key = None
        self._config = {}

    def active(self, on=None):
        if on is None:
            return self._on
        self._on = bool(on)
        if not on:
            self._ssid = None
            self._status = STAT_IDLE

    def connect(self, ssid, key=""):
        if not self._on:
            raise OSError("Wifi Not Started")
        if self._status == STAT_GOT_IP:
            raise OSError("Wifi Internal Error")
        self._ssid = ssid
        self._key = key
        self._status = STAT_CONNECTING
        net = _networks().get(ssid)
        delay = net.get("join_ms", 50) if net else 100
        self._due = time.ticks_add(time.ticks_ms(), delay)

    def disconnect(self):
        self._ssid = None
        self._status = STAT_IDLE

    def _look(self):
        net = _networks().get(self._ssid) if self._ssid is not None else None
        if self._status == STAT_GOT_IP and net is None:
            self._status = STAT_BEACON_TIMEOUT
        if self._status == STAT_CONNECTING and time.ticks_diff(time.ticks_ms(), self._due) >= 0:
            if net is None:
                self._status = STAT_NO_AP_FOUND
            elif net.get("password", "") != (self._key or ""):
                self._status = STAT_WRONG_PASSWORD
            elif net.get("dhcp", True):
                self._status = STAT_GOT_IP
        return net

    def status(self, what=None):
        net = self._look()
        if what == "rssi":
            if self._status != STAT_GOT_IP:
                raise OSError("STA must be active")
            return net.get("rssi", -60)
        if what == "stations":
            return []
        return self._status

    def isconnected(self):
        self._look()
        return self._status == STAT_GOT_IP

    def ifconfig(self):
        if self._number == AP_IF:
            return ("127.0.0.1", "255.0.0.0", "127.0.0.1", "0.0.0.0")
        if not self.isconnected():
            return ("0.0.0.0", "0.0.0.0", "0.0.0.0", "0.0.0.0")
        return ("127.0.0.1", "255.0.0.0", "127.0.0.1", _world.get("dns", "0.0.0.0"))

    def config(self, name=None, **values):
        if name == "mac":
            return b"\x24\x0a\xc4\x00\x51\x4d"
        if name is not None:
            return self._config[name]
        self._config.update(values)


def WLAN(number=STA_IF):
    """The one interface of this number."""
    if number not in _interfaces:
        _interfaces[number] = _Interface(number)
    return _interfaces[number]
