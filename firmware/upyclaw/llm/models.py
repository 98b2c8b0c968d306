"""Which model answers: the relay of an attached PC if there is one, else the settings' server.

Owns that choice alone; loads a client when it is wanted for the first time. Has the API of the
clients (link_client.py, http_client.py).
"""


class Models:
    """`link`, `control`: for the LinkClient. `settings`, `offline`: for the HttpClient."""

    def __init__(self, link, control, settings, offline):
        self._control = control
        self._link = link
        self._settings = settings
        self._offline = offline
        self._by_link = None
        self._by_http = None

    def client(self):
        """The client that would answer now."""
        if self._link.attached and self._control.relay is not None:
            if self._by_link is None:
                from upyclaw.llm.link_client import LinkClient

                self._by_link = LinkClient(self._link, self._control)
            return self._by_link
        if self._by_http is None:
            from upyclaw.llm.http_client import HttpClient

            self._by_http = HttpClient(self._settings, self._offline)
        return self._by_http

    @property
    def available(self):
        """True if a model can be asked."""
        return self.client().available

    @property
    def why(self):
        """The sentence for the user when `available` is False."""
        return self.client().why

    @property
    def model(self):
        """The model's name, "" if unknown."""
        return self.client().model

    @property
    def context(self):
        """Tokens that the model takes in all."""
        return self.client().context

    @property
    def tools(self):
        """True unless the model is known not to call tools."""
        return self.client().tools

    async def chat(self, request, handler, kind="chat", timeout_ms=300000):
        """Ask the model; see LinkClient.chat. Raises LLMError."""
        await self.client().chat(request, handler, kind, timeout_ms)
