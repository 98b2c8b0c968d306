"""The Wi-Fi networks this board knows: `/wifi.json`.

Owns that file: {"networks": [{"ssid": text, "password": text}]}, tried in this order. Passwords
leave it for the Wi-Fi hardware only (B30): `names` is what everybody else gets.
"""

import json

from upyclaw.compat import json_loads
from upyclaw.storage.files import write_file

PATH = "/wifi.json"
_MOST = 8
_LARGEST = 2048  # bytes of the file


def load(path=PATH):
    """[(ssid, password)]; what is not usable in the file is left out."""
    out: list = []
    try:
        with open(path, "rb") as f:
            given = json_loads(f.read(_LARGEST))["networks"]
        for net in given[:_MOST]:
            if isinstance(net["ssid"], str) and isinstance(net["password"], str):
                out.append((net["ssid"], net["password"]))
    except (OSError, ValueError, UnicodeError, KeyError, TypeError):
        pass
    return out


def _save(networks, path):
    given = [{"ssid": ssid, "password": password} for ssid, password in networks]
    write_file(path, json.dumps({"networks": given}).encode())


def add(ssid, password, path=PATH):
    """Put a network first. None, or the sentence why it was not taken. Raises StorageError."""
    if not isinstance(ssid, str) or not 0 < len(ssid.encode()) <= 32:
        return "A network's name has 1 to 32 bytes."
    if not isinstance(password, str) or (password and not 8 <= len(password.encode()) <= 63):
        return "A Wi-Fi password has 8 to 63 characters, or none for an open network."
    networks = [net for net in load(path) if net[0] != ssid]
    if len(networks) >= _MOST:
        return "{} networks are known already; forget one first.".format(_MOST)
    _save([(ssid, password)] + networks, path)
    return None


def forget(ssid, path=PATH):
    """Forget a network. None, or the sentence why not. Raises StorageError."""
    networks = load(path)
    left = [net for net in networks if net[0] != ssid]
    if len(left) == len(networks):
        return 'There is no network "{}" to forget.'.format(ssid)
    _save(left, path)
    return None


def command(message):
    """Carry out a control message {"do": "add", "forget" or "list", "ssid", "password"}: the
    sentence why not, or None. Raises StorageError."""
    do = message.get("do")
    if do == "add":
        return add(message.get("ssid"), message.get("password", ""))
    if do == "forget":
        return forget(message.get("ssid"))
    return None if do == "list" else "There is no such order for Wi-Fi."
