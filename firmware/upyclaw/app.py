"""The app on the board: reads the settings, wires the parts, keeps the tasks alive.

The one module that knows everyone. Ctrl-C ends it (B22): nothing here catches KeyboardInterrupt,
and after it the REPL and its tools have the board.
"""

import asyncio
import gc
import sys

from upyclaw.agent import Agent
from upyclaw.channels.chat import LINE, LinkSink, SerialChat
from upyclaw.channels.control import Control
from upyclaw.channels.link import Link
from upyclaw.channels.serial import StdioPort
from upyclaw.compat import mem_free, sleep_ms, unload
from upyclaw.llm.link_client import LinkClient
from upyclaw.storage import SessionStore, StorageError

SESSIONS = "/data/sessions"
SERIAL = "chat:serial:usb"  # chat key of whoever sits at the serial line
_IDLE_MS = 20000  # without a turn for so long, lagging indexes are completed


class App:
    """All parts of a running board. `problems`: sentences about the settings, told at hello."""

    def __init__(self, settings, problems):
        self.settings = settings
        self.notices = problems
        self.link = Link(StdioPort(), self.log)
        self.control = Control(self.link, self.about)
        self.client = LinkClient(self.link, self.control)
        session = settings["session"]
        self.store = SessionStore(SESSIONS, session["limit"], session["when_full"])
        self.store.clean()
        self.agent = Agent(self.store, self.client, settings, self.tools)
        self.control.on("probe", self.probe)
        self._probe = None
        self.chat = SerialChat(self.link, SERIAL, self.answer)

    def log(self, text):
        """One line on the console; the PC shows it as a log line."""
        sys.stdout.write(text + "\r\n")

    def board(self):
        """Name of the board's folder in `boards/`, as the firmware was installed for it."""
        try:
            with open("/upyclaw/board.txt") as f:
                return f.read()
        except OSError:
            return sys.platform

    def tools(self):
        """The tools of this board; made when a model that calls tools is there."""
        from upyclaw.tools.builtin import builtin_tools
        from upyclaw.tools.registry import Registry

        return Registry(builtin_tools(self.board(), "/", lambda: self.control.tz))

    def about(self):
        """What `hello` and `status` say beside the link's own facts."""
        notices = self.notices + self.store.take_notices()
        self.notices = []
        return {
            "board": self.board(),
            "name": self.settings["name"],
            "session": self.agent.map(SERIAL).current()[0],
            "flash_free": self.flash_free(),
            "line": LINE,
            "notices": notices,
        }

    def flash_free(self):
        """Free bytes of the flash, None if unknown."""
        blocks = self.store.free_blocks()
        return None if blocks is None else blocks * self.store.block

    def probe(self, message):
        """Watch the heap for `upyclaw bench ram`."""
        from upyclaw.probe import Probe

        if message.get("on"):
            self._probe = Probe()
            self.control.post({"op": "probe"})
        elif self._probe:
            self.control.post(self._probe.stop())
            self._probe = None

    async def answer(self, chat, text, sink):
        """Answer one line; the fields of the end event."""
        fields = await self.agent.answer(chat, text, sink)
        gc.collect()
        fields["heap_free"] = mem_free()
        fields["flash_free"] = self.flash_free()
        return fields

    async def idle(self):
        """Complete lagging indexes while nobody talks."""
        while True:
            await sleep_ms(_IDLE_MS)
            try:
                self.agent.rest()
            except StorageError as error:
                await LinkSink(self.link, 0).note(str(error))

    async def keep(self, name, run):
        """Run a task for good: what ends it is logged, then it starts again (B61)."""
        while True:
            try:
                await run()
            except Exception as error:
                self.log("upyclaw: {} failed ({!r}) and was started again.".format(name, error))
            await sleep_ms(500)

    async def run(self):
        """Run until Ctrl-C."""
        tasks = (
            ("link", self.link.run),
            ("control", self.control.run),
            ("chat", self.chat.run),
            ("idle", self.idle),
        )
        running = [asyncio.create_task(self.keep(name, run)) for name, run in tasks]
        await asyncio.gather(*running)


def main():
    """Start the board; returns only by an exception."""
    from upyclaw import config

    settings, problems = config.load()
    del config
    unload("upyclaw.config")
    app = App(settings, problems)
    gc.collect()
    app.log("upyclaw on {} is ready: {} bytes of heap free.".format(app.board(), mem_free()))
    asyncio.run(app.run())
