"""`upyclaw wifi`: orders about Wi-Fi that come over the serial line (docs/network.md).

Imported for one order. Must never put a password into an answer (B30).
"""

from upyclaw.net import known
from upyclaw.storage.files import StorageError


def carry_out(net, message):
    """The answer to a control message {"op": "wifi", ...}. `net`: Wifi, None without hardware."""
    if net is None:
        return {"op": "wifi", "error": "This board has no Wi-Fi, or it is off (network.wifi)."}
    try:
        error = known.command(message)
    except StorageError as problem:
        error = str(problem)
    if not error and message["do"] != "list":
        net.ssid = ""
        net.problem = "The board looks for its networks anew."
        net.wake.set()
    names = [ssid for ssid, _ in known.load()]
    return {"op": "wifi", "error": error, "networks": names, "now": net.about()}
