"""Which model answers: the relay of an attached PC if there is one, else the settings' server.

Owns that choice alone. Has the API of the clients (link_client.py, http_client.py).
"""


class Models:
    """`link`: LinkClient. `settings`, `offline`: for the HttpClient."""

    def __init__(self, link, settings, offline):
        from upyclaw.llm.http_client import HttpClient

        self._link = link
        self._http = HttpClient(settings, offline)

    def client(self):
        """The client that would answer now."""
        return self._link if self._link.available else self._http

    @property
    def available(self):
        """True if a model can be asked."""
        return self.client().available

    @property
    def why(self):
        """The sentence for the user when `available` is False."""
        return self._http.why

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
