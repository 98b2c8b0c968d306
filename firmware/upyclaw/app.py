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
from upyclaw.storage import SessionStore, StorageError
from upyclaw.storage.files import size

SESSIONS = "/data/sessions"
SERIAL = "chat:serial:usb"  # chat key of whoever sits at the serial line
FAILED = "/failed_starts.txt"  # there after a failed start, upyclaw/safe.py
_IDLE_MS = 60000


class App:
    """All parts of a running board. `problems`: sentences about the settings, told at hello."""

    def __init__(self, settings, problems):
        self.settings = settings
        self.notices = problems
        self.link = Link(StdioPort(), self.log)
        self.control = Control(self.link, self.about)
        self.client = self.models()
        session = settings["session"]
        self.store = SessionStore(SESSIONS, session["limit"], session["when_full"])
        self.store.clean()
        self.mind = self.memory()
        self.agent = Agent(self.store, self.client, settings, self.tools, self.mind)
        self.agent.sees_memory = self.sees_memory
        if self.mind:
            self.mind.worker.make_room = self.agent.make_room
        self.net = None
        self.pages = None  # the page's server while it serves
        self.control.on("wifi", self.wifi)
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

    def tools(self, memory):
        """The tools of this board, with or without those of long-term memory."""
        from upyclaw.tools.builtin import builtin_tools
        from upyclaw.tools.registry import Registry

        tools = builtin_tools(self.board(), "/", lambda: self.control.tz)
        return Registry(tools + (self.mind.tools() if self.mind and memory else []))

    def memory(self):
        """Long-term memory, unless `memory.mode` is off."""
        if self.settings["memory"]["mode"] == "off":
            return None
        from upyclaw.mind import Mind

        return Mind(
            self.settings, self.client, self.remembered, lambda: self.control.tz, self.secrets
        )

    def remembered(self, sid, sentence):
        """Tell the chat of session `sid` what extraction stored."""
        if sid.startswith(SERIAL) and self.link.attached:
            asyncio.create_task(LinkSink(self.link, 0).note(sentence))
        elif self.pages:
            self.pages.note(sid, sentence)

    def secrets(self):
        """Texts that must never get into memory."""
        return [self.settings["model"]["api_key"]]

    def models(self):
        """The client for the model: the PC's relay, or with a base URL also a server."""
        if self.settings["model"]["base_url"]:
            from upyclaw.llm.models import Models

            return Models(self.link, self.control, self.settings, self.offline)
        from upyclaw.llm.link_client import LinkClient

        return LinkClient(self.link, self.control)

    def join(self):
        """Start Wi-Fi, if this board has it, the settings allow it and it does not run yet."""
        if self.net is None and self.settings["network"]["wifi"] == "on":
            try:
                import network
            except ImportError:
                return
            del network
            from upyclaw.net.wifi import Wifi

            self.net = Wifi(self.settings["network"], self.settings["name"], self.log)
            self.agent.net = self.net
            asyncio.create_task(self.keep("wifi", self.net.run))

    def offline(self):
        """ "" if the board is on a network, else why not, in a sentence."""
        if self.settings["network"]["wifi"] == "off":
            return "Wi-Fi is off: set network.wifi to on in the board's config.json."
        self.join()
        return "" if self.net is None or self.net.ssid else self.net.problem

    def sees_memory(self, chat):
        """True if the user of chat key `chat` may see long-term memory (B32)."""
        if not chat.startswith("chat:web:"):
            return True
        who = self.settings["web"]["memory"]
        return who == "all" or who == "owner" and not chat.startswith("chat:web:guest_")

    async def page(self):
        """Serve the page on the board, once there is a network."""
        from upyclaw.web import serve

        await serve(self)

    def wifi(self, message):
        """Carry out an order of `upyclaw wifi`."""
        from upyclaw.net.orders import carry_out

        self.join()
        self.control.post(carry_out(self.net, message))
        del carry_out
        unload("upyclaw.net.orders", "upyclaw.net.known")

    def about(self):
        """What `hello` and `status` say beside the link's own facts."""
        notices = self.notices + self.store.take_notices()
        self.notices = []
        if self.mind:
            notices += self.mind.store.take_notices()
        return {
            "board": self.board(),
            "name": self.settings["name"],
            "session": self.agent.map(SERIAL).current()[0],
            "flash_free": self.flash_free(),
            "line": LINE,
            "notices": notices,
            "net": self.net.about() if self.net else None,
            "jobs": self.mind.worker.left() if self.mind else 0,
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

    def close(self):
        """Before a tool takes over: complete the indexes, so that pulled files are whole."""
        try:
            self.agent.close()
        except StorageError as error:
            self.log(str(error))

    async def idle(self):
        """Once a minute: a start that came this far was a good one; housekeeping of the memory
        while nobody talks."""
        while True:
            await sleep_ms(_IDLE_MS)
            if size(FAILED) >= 0:
                from upyclaw import safe

                safe.forget()
                del safe
                unload("upyclaw.safe")
            if self.mind and not self.agent.busy():
                self.mind.idle()

    async def keep(self, name, run):
        """Run a task for good: what ends it is logged, then it starts again (B61)."""
        while True:
            try:
                await run()
            except Exception as error:
                if isinstance(error, MemoryError):
                    self.agent.relieve()
                self.log("upyclaw: {} failed ({!r}) and was started again.".format(name, error))
            await sleep_ms(500)

    async def run(self):
        """Run until Ctrl-C."""
        tasks = [
            ("link", self.link.run),
            ("control", self.control.run),
            ("chat", self.chat.run),
            ("idle", self.idle),
        ]
        if self.mind:
            tasks.append(("memory", self.mind.worker.run))
        network = self.settings["network"]
        if network["access_point"] == "on" or size("/wifi.json") >= 0:
            self.join()
        running = [asyncio.create_task(self.keep(name, run)) for name, run in tasks]
        web = self.settings["web"]
        if web["enabled"] != "off" and (self.net or web["host"]):
            running.append(asyncio.create_task(self.keep("page", self.page)))
        await asyncio.gather(*running)


def main():
    """Start the board; returns only by an exception."""
    from upyclaw import config

    settings, problems = config.load()
    if size(FAILED) >= 0:
        from upyclaw import safe

        problem = safe.restrict(settings)
        if problem:
            problems.append(problem)
        del safe
        unload("upyclaw.safe")
    del config
    unload("upyclaw.config")
    app = App(settings, problems)
    gc.collect()
    app.log("upyclaw on {} is ready: {} bytes of heap free.".format(app.board(), mem_free()))
    try:
        asyncio.run(app.run())
    except KeyboardInterrupt:
        app.close()
        raise
