"""Takes one reply of the model into the session while it streams.

Owns the JSON of ASSISTANT_FINAL and ASSISTANT_TOOL records as this board writes them (SPEC-session
§4): `{"role":"assistant","content":"..."}`, with tool calls `content` (null if there is no text),
`reasoning_content` if there was any (B04), `tool_calls`. Must not hold the answer; tool calls are
held, within limits, as they can be judged only when they are whole (B14, B17).
"""

from upyclaw.compat import unload
from upyclaw.prompt.clean import tool_name
from upyclaw.storage.codec import FINAL, TOOL, json_escape
from upyclaw.storage.files import StorageError

CALLS = 8  # calls of one reply; further ones are not taken
ARGUMENTS = 4096  # bytes of arguments of one reply
REASONING = 4096  # bytes of thinking kept for a round of tools; what is longer is cut

_CUT = "The call was cut off by the token limit and was not run. Send it again, shorter."
_LONG = "The arguments are longer than {} bytes; the call was not run.".format(ARGUMENTS)


class Call:
    """A tool call: `id`, `name`, `raw` (arguments as text), and after `TurnHandler.finish`
    `arguments` (dict), or `problem`, the sentence why it must not run."""

    def __init__(self):
        self.id = ""
        self.name = ""
        self.raw = ""
        self.arguments = None
        self.problem = None
        self._parts = bytearray()

    def add(self, text, room):
        data = text.encode()
        if len(data) > room:
            self.problem = _LONG
            return 0
        self._parts += data
        return len(data)

    def close(self, cut):
        from upyclaw.tools.arguments import parse_arguments, strict_text

        unload("upyclaw.tools.arguments")
        text = self._parts.decode()
        self._parts = bytearray()
        try:
            if not self.problem:
                self.arguments = parse_arguments(text)
                self.raw = strict_text(text, self.arguments)
        except ValueError as e:
            self.problem = str(e)
        if cut:
            self.problem = self.problem or _CUT
        if not self.raw:
            # Half an argument is not stored: servers refuse it for ever (B17).
            self.raw = "{}"


class TurnHandler:
    """Handler of a ReplyReader: text goes to `show(str)` and into `session` as it comes.

    Then, once: `finish()` if the reply came whole, or `fail(note)` if it did not.

    `cut`: the token limit ended the reply. `usage`: what the provider counted, or None. `words`:
    True once something was shown. `calls`: list of Call. `error`: the StorageError that ended the
    saving; the text is shown all the same.
    """

    def __init__(self, session, show, fmt=1, keep_reasoning=True):
        self.calls = []
        self.cut = False
        self.usage = None
        self.words = False
        self.error = None
        self.drain = None  # async, awaited by the client after each piece
        self._session = session
        self._show = show
        self._fmt = fmt
        self._keep = keep_reasoning
        self._reasoning = None
        self._room = ARGUMENTS

    # What the reader calls

    def on_text(self, text):
        """A piece of the answer. Blanks before the first word are left out."""
        if not self.words:
            text = text.lstrip()
            if not text:
                return
            self.words = True
            self._begin(FINAL, b'{"role":"assistant","content":"')
        for i in range(0, len(text), 256):
            self._write(json_escape(text[i : i + 256]))
        self._show(text)

    def on_reasoning(self, text):
        """A piece of thinking: kept in RAM for the case that a tool call follows."""
        if not self._keep:
            return
        if self._reasoning is None:
            self._reasoning = bytearray()
        data = text.encode()
        if len(self._reasoning) + len(data) <= REASONING:
            self._reasoning += data
        else:
            self._keep = False

    def on_tool(self, index, ident, name, arguments):
        """A piece of call number `index`."""
        if index >= CALLS:
            return
        while len(self.calls) <= index:
            self.calls.append(Call())
        call = self.calls[index]
        call.id = call.id or ident
        call.name = call.name or tool_name(name)
        self._room -= call.add(arguments, self._room)

    def on_end(self, reason, usage):
        """The reply is whole."""
        self.cut = reason == "length"
        self.usage = usage

    # What the agent calls

    def finish(self):
        """Complete the record. Returns TOOL if there are calls to run, else FINAL.

        Raises the StorageError that kept the record from being written.
        """
        if self.calls:
            self._finish_calls()
            rtype = TOOL
        else:
            self._write(b'"}')
            rtype = FINAL
        self._end(rtype)
        return rtype

    def fail(self, note):
        """The reply broke off: end the turn with FINAL, what came of the text and `note` (B11).

        `note` is a short plain sentence. Raises the StorageError that kept it from being written.
        """
        if self.words:
            self._write(b"\\n\\n")
        else:
            self._begin(FINAL, b'{"role":"assistant","content":"')
        self._write(json_escape(note) + b'"}')
        self._end(FINAL)

    # Inside

    def _finish_calls(self):
        if self.words:
            self._write(b'"')
        else:
            self._begin(TOOL, b'{"role":"assistant","content":null')
        if self._reasoning is not None:
            self._write(b',"reasoning_content":"')
            for i in range(0, len(self._reasoning), 256):
                self._write(json_escape(memoryview(self._reasoning)[i : i + 256]))
            self._write(b'"')
            self._reasoning = None
        head = b',"tool_calls":['
        for i in range(len(self.calls)):
            call = self.calls[i]
            call.close(self.cut)
            # Unique within the session: no two records have the same number.
            call.id = call.id or "call_{}_{}".format(self._session.count, i)
            call.name = call.name or "unknown"
            self._write(
                head
                + b'{"id":"'
                + json_escape(call.id)
                + b'","type":"function","function":{"name":"'
                + call.name.encode()
                + b'","arguments":"'
            )
            self._write(json_escape(call.raw))
            self._write(b'"}}')
            head = b","
        self._write(b"]}")

    def _begin(self, rtype, data):
        if not self.error:
            try:
                self._session.begin(rtype, self._fmt)
            except StorageError as e:
                self.error = e
        self._write(data)

    def _write(self, data):
        if not self.error:
            try:
                self._session.write(data)
            except StorageError as e:
                self.error = e

    def _end(self, rtype):
        if not self.error:
            try:
                self._session.end(rtype)
            except StorageError as e:
                self.error = e
        if self.error:
            raise self.error
