"""Settings of the board: `/config.json` over the defaults below.

Owns the names, types and limits of settings. A broken file never stops the board (B55): what is
wrong is said in one sentence each, the defaults stand in. Must not write the file.
"""

from upyclaw.compat import json_loads

PATH = "/config.json"
_LARGEST = 4096  # bytes of a config file; more is surely something else


def defaults():
    """A fresh settings tree: section -> name -> value. Sizes in bytes, times in seconds."""
    return {
        "name": "upyclaw",
        "session": {
            "limit": 153600,  # data bytes of a session before compaction, spec/SPEC-session.md §9
            "when_full": "block",  # or "trim"
        },
        "model": {
            "max_tokens": 768,  # tokens of one answer
            "max_tokens_field": "max_tokens",  # or "max_completion_tokens" (B44)
            "temperature": -1,  # tenths; -1 leaves it to the provider
            "timeout": 300,  # seconds without a sign of life from the model
            "rounds": 10,  # tool rounds of one turn (B59)
            "empty_content": "null",  # beside tool calls: "null", "empty" or "omit" (B12)
            # A server the board talks to by itself, over Wi-Fi; "" leaves it to the relay.
            "base_url": "",  # http:// or https://, any spelling of B10
            "api_key": "",  # the key, or the board's token for `upyclaw relay --listen`
            "name": "",  # the model's name there
            "context": 8192,  # tokens that model takes in all
            "ca": "/ca.crt",  # root certificates for https, DER, one behind the other
        },
        "network": {
            "hostname": "",  # NAME.local; "" takes the board's name
            "wifi": "on",  # "off": the radio stays off, whatever networks are known
            "ntp": "pool.ntp.org",  # time server, perhaps with :port; "" for none
            "access_point": "on",  # a Wi-Fi of its own for set-up while no network is known
            "portal_port": 80,  # of the set-up page; its DNS is on 53, or one above this
        },
        "web": {
            "enabled": "auto",  # the page on the board; "on", "off", "auto": if the heap has room
            "port": 80,
            "host": "",  # address to listen on; "" for the one the network gives
            "memory": "owner",  # who sees long-term memory there: "owner", "all", "nobody" (B32)
        },
        "memory": {
            "mode": "full",  # "full": labels and recall, "light": MEMORY.md whole, "off"
            "extract": "on",  # facts are taken out of what the user says, after the reply
            "recall": "on",  # what fits the user's words is added to the request by itself
            "notes": "on",  # a quiet line in the chat when a memory changed
        },
        "prompt": {
            "system": "",  # text in place of the built-in instruction
            "tools": "auto",  # "on", "off", "auto": as the relay says the model can
        },
    }


_CHOICES = {
    "when_full": ("block", "trim"),
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "empty_content": ("null", "empty", "omit"),
    "tools": ("auto", "on", "off"),
    "mode": ("full", "light", "off"),
    "extract": ("on", "off"),
    "recall": ("on", "off"),
    "notes": ("on", "off"),
    "access_point": ("on", "off"),
    "wifi": ("on", "off"),
    "enabled": ("auto", "on", "off"),
    "memory": ("owner", "all", "nobody"),
}
_RANGES = {
    "limit": (8192, 1048576),
    "max_tokens": (16, 8192),
    "temperature": (-1, 20),
    "timeout": (5, 3600),
    "rounds": (1, 50),
    "context": (1024, 2000000),
    "portal_port": (1, 65534),
    "port": (1, 65535),
}


def _check(name, value, default):
    """None if `value` will do for setting `name`, else what it must be, in words."""
    if name in _CHOICES:
        if value in _CHOICES[name]:
            return None
        return "one of " + ", ".join(_CHOICES[name])
    if isinstance(default, int):
        low, high = _RANGES[name]
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return None
        return "a whole number from {} to {}".format(low, high)
    return None if isinstance(value, str) else "a text"


def _merge(into, given, where, problems):
    for name in given:
        value = given[name]
        label = where + name
        if name not in into:
            problems.append("{}: {} is no setting; it is ignored.".format(PATH, label))
        elif isinstance(into[name], dict):
            if isinstance(value, dict):
                _merge(into[name], value, label + ".", problems)
            else:
                problems.append("{}: {} must be a group of settings.".format(PATH, label))
        else:
            wrong = _check(name, value, into[name])
            if wrong is None:
                into[name] = value
            else:
                problems.append(
                    "{}: {} must be {}; {} is used.".format(PATH, label, wrong, into[name])
                )


def load(path=PATH):
    """(settings, problems): the defaults with the file's values, and a sentence for each fault."""
    settings = defaults()
    problems: list = []
    try:
        with open(path, "rb") as f:
            raw = f.read(_LARGEST + 1)
    except OSError:
        return settings, problems
    try:
        if len(raw) > _LARGEST:
            raise ValueError
        given = json_loads(raw)
        if not isinstance(given, dict):
            raise ValueError
    except (ValueError, UnicodeError):
        problems.append(
            "{} is not a JSON object of at most {} bytes; "
            "the defaults are used until it is mended.".format(path, _LARGEST)
        )
        return settings, problems
    _merge(settings, given, "", problems)
    return settings, problems
