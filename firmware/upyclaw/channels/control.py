"""Stream 0 of the link: who is there, what they can do, what time it is.

Owns `hello`, the news about the relay and `status` (docs/link.md, "Control"). Must not know chat
or model traffic; what it cannot know itself comes from `info()`.
"""

import json

from upyclaw import __version__
from upyclaw.channels.link import RX, LinkDown
from upyclaw.compat import Queue, json_loads, mem_free, set_unix_time

VERSION = 1  # of the messages; a different one is refused on both sides
_LIMIT = 1024  # bytes of one control message


class Control:
    """Answers the client. `info()` returns what the app adds to hello and status (a dict).

    `relay`: None or {"provider", "model", "context"} of the PC that answers model requests;
    `tz`: seconds east of UTC; `client`: name and version of the program on the PC;
    `problem`: a sentence if the client that connected last was refused, else "".
    """

    def __init__(self, link, info=None):
        self.relay = None
        self.tz = 0
        self.client = ""
        self.problem = ""
        self._link = link
        self._info = info or dict
        self._ops = {"hello": self._hello, "relay": self._relay, "status": self._status}
        self._text = b""
        self._out = Queue()
        self._changes = []
        link.on(0, self._part)
        link.on_state(self._state)

    def on(self, op, fn):
        """Call fn(message) for control messages with this `op`."""
        self._ops[op] = fn

    def on_relay(self, fn):
        """Call fn(relay_or_None) when a relay comes or goes."""
        self._changes.append(fn)

    def post(self, message):
        """Send a control message (a dict) soon; forgotten if there is no session then."""
        if self._out.qsize() < 8:
            self._out.put_nowait(message)

    async def run(self):
        """Send what waits, until cancelled."""
        while True:
            message = await self._out.get()
            try:
                await self._link.send(0, json.dumps(message).encode())
            except LinkDown:
                pass

    def _part(self, part, end):
        if len(self._text) + len(part) <= _LIMIT:
            self._text += bytes(part)
        else:
            self._text = b"-"  # too long: not JSON any more
        if not end:
            return
        text = self._text
        self._text = b""
        try:
            message = json_loads(text)
            op = message["op"]
        except (ValueError, KeyError, TypeError):
            self.post({"op": "error", "error": "A control message was not understood."})
            return
        fn = self._ops.get(op)
        if fn:
            fn(message)

    def _state(self, up):
        self._text = b""
        while not self._out.empty():
            self._out.get_nowait()
        self._set_relay(None)

    def _set_relay(self, relay):
        if not isinstance(relay, dict):
            relay = None
        if relay != self.relay:
            self.relay = relay
            for fn in self._changes:
                fn(relay)

    def _hello(self, message):
        self.client = str(message.get("client", ""))
        version = message.get("version")
        if version == VERSION:
            self.problem = ""
            if isinstance(message.get("time"), int):
                set_unix_time(message["time"])
            if isinstance(message.get("tz"), int):
                self.tz = message["tz"]
            self._link.attached = True
            self._set_relay(message.get("relay"))
        else:
            self.problem = (
                "The program on the PC ({}) speaks version {} of the link and this board "
                "version {}: update the older one."
            ).format(self.client, version, VERSION)
        self.post(self._about("hello"))

    def _relay(self, message):
        self._set_relay(message.get("relay"))

    def _status(self, message):
        answer = self._about("status")
        answer["link"] = self._link.counters()
        self.post(answer)

    def _about(self, op):
        answer = self._info()  # type: dict
        answer["op"] = op
        answer["version"] = VERSION
        answer["firmware"] = __version__
        answer["rx"] = RX
        answer["line"] = answer.get("line", 8192)
        answer["heap_free"] = mem_free()
        if self.problem:
            answer["error"] = self.problem
        return answer
