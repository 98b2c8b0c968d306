"""Model requests over the network: any server with the OpenAI dialect, or the relay's own.

Owns when a request goes out: one connection at a time, because TLS takes 40 KB of a chip, and
another try where one may help. The exchange itself is http_exchange.py, loaded for its time only.
Must not know sessions or Wi-Fi.
"""

import asyncio

from upyclaw.compat import sleep_ms, unload
from upyclaw.llm.errors import LLMError

_LONGEST = 30  # s, the longest pause before another try


class HttpClient:
    """Client for the server of `settings["model"]`, with the API of LinkClient.

    `offline()`: "" if there is a network, else why not, in a sentence.
    """

    tools = True  # as far as anybody can tell; prompt.tools decides

    def __init__(self, settings, offline):
        self._settings = settings["model"]
        self._offline = offline
        self._lock = asyncio.Lock()
        self._address = None  # of the host, once it is known
        self._work = None  # the Exchange that runs
        self._problem = ""
        self._where: tuple = ()
        try:
            from upyclaw.llm.url import endpoint

            self._where = endpoint(self._settings["base_url"])
        except ValueError as error:
            self._problem = str(error)
        unload("upyclaw.llm.url")

    @property
    def available(self):
        """True if there is a server to ask and a network to ask it over."""
        return not self.why

    @property
    def why(self):
        """The sentence for the user when `available` is False."""
        return self._problem or self._offline()

    @property
    def model(self):
        """The model's name, "" if the server chooses."""
        return self._settings["name"]

    @property
    def context(self):
        """Tokens that the model takes in all, from the settings."""
        return self._settings["context"]

    async def chat(self, request, handler, kind="chat", timeout_ms=300000):
        """Send `request`, pass the reply to `handler` as it comes.

        `request` has `pieces(buf)`, run twice or more; if it has `model` and `options` (see
        prompt.Request), the model's name and what the server was found to want go there.
        `timeout_ms`: longest silence of the server. A request of kind "chat" makes one of another
        kind give way. Raises LLMError.
        """
        if self.why:
            raise LLMError("gone", self.why)
        if kind == "chat" and self._work and self._work.kind != "chat":
            self._work.abort()
        async with self._lock:
            from upyclaw.llm.http_exchange import Exchange

            try:
                work = self._work = Exchange(self._settings, self._where, kind, timeout_ms)
                tries = 0
                while True:
                    tries += 1
                    try:
                        work.address = self._address
                        await work.run(request, handler)
                        self._address = work.address
                        return
                    except (LLMError, OSError, ValueError) as error:
                        self._address = None if isinstance(error, OSError) else work.address
                        # The chat must not wait while another kind waits for its next try.
                        longest = _LONGEST if kind == "chat" else 0
                        pause = self._fault(error, tries, longest)
                    finally:
                        work.close()
                    await sleep_ms(pause)
            finally:
                self._work = None
                del Exchange
                unload("upyclaw.llm.http_exchange", "upyclaw.llm.http_reply", "upyclaw.net.conn")

    def _fault(self, error, tries, longest):
        """What a failed try means: ms to wait before the next one, or an LLMError raised."""
        from upyclaw.llm import http_faults

        try:
            return http_faults.pause(error, self._settings, self._where, tries, longest)
        finally:
            del http_faults
            unload("upyclaw.llm.http_faults")
