"""Reads a model's reply, piece by piece as it comes, in any of the shapes servers send.

Owns the parsing of OpenAI-dialect replies: server-sent events, one JSON body, native Ollama (one
body or a line per event), Anthropic bodies, errors and web pages in place of an answer (B12, B14,
B17, B43). Must not keep the answer: every piece goes to the handler at once.

RAM: one event line (at most 8 KB) or one JSON body (at most 16 KB), never the stream.

    handler.on_text(str)                            words of the answer
    handler.on_reasoning(str)                       thinking, not for the user; may be "" (B04)
    handler.on_tool(index, id, name, arguments)     a piece of a tool call; id, name may be ""
    handler.on_end(finish_reason, usage)            once, at the end of a whole reply
"""

import json

from upyclaw.compat import const, json_loads, utf8_clean
from upyclaw.llm.errors import LLMError

LINE_LIMIT = 8192  # bytes of one event
BODY_LIMIT = 16384  # bytes of a reply that is one JSON value
CALLS_LIMIT = 32  # tool calls of one reply

_HTML_LIMIT = const(1024)
_ERROR_LIMIT = const(2048)

# What the reply turned out to be.
_UNKNOWN = const(0)
_LINES = const(1)  # server-sent events, or a JSON object a line
_BODY = const(2)
_HTML = const(3)
_ERROR = const(4)  # the body of an HTTP error

_FINISH = {"max_tokens": "length", "tool_use": "tool_calls", "end_turn": "stop"}


def _failures():
    from upyclaw.llm import failures

    return failures


class ReplyReader:
    """Turns the bytes of a reply into calls of `handler`.

    `status` and `retry_after` are those of the HTTP reply: with a status outside 200..299
    the bytes are read as an error body and `finish` raises what it says.
    """

    def __init__(self, handler, status=200, retry_after=None):
        self.done = False  # the server said that nothing follows
        self._handler = handler
        self._status = 0 if 200 <= status < 300 else status
        self._retry_after = retry_after
        self._mode = _UNKNOWN if 200 <= status < 300 else _ERROR
        self._buf = bytearray(256)
        self._n = 0
        self._calls = []  # (server's index, id) of each tool call so far
        self._finish = None
        self._usage = None
        self._said = False
        self._thought = False
        self._one_value = False  # a body whose first line is not a value of its own
        self._stray = ""  # the first line that is no event, for the error message

    def feed(self, data):
        """Take the next bytes of the reply. Raises LLMError as soon as the reply is known bad."""
        if self._mode == _UNKNOWN:
            data = self._sniff(data)
            if not data:
                return
        if self._mode == _LINES:
            self._feed_lines(data)
        elif self._mode == _BODY:
            self._feed_body(data)
        else:
            limit = _HTML_LIMIT if self._mode == _HTML else _ERROR_LIMIT
            self._keep(data, 0, min(len(data), limit - self._n))
            if self._mode == _HTML and (self._n >= limit or b"</title" in self._held()):
                raise _failures().html_error(self._held(), self._status)

    def finish(self):
        """The reply has ended. Calls `on_end`, or raises LLMError: error, empty, cut, html."""
        if self._mode == _ERROR:
            raise _failures().http_error(self._status, self._held(), self._retry_after)
        if self._mode == _HTML:
            raise _failures().html_error(self._held(), self._status)
        if self._n:
            if self._mode == _BODY:
                self._body(self._held())
            else:
                self._line(self._held())
            self._n = 0
        if self._finish is None and not self.done:
            if self._said or self._calls or self._thought:
                raise LLMError("cut", "The model's answer broke off before its end.", self._status)
            text = "The model sent an empty reply."
            if self._stray:
                text = "The model server sent something that is not an answer: " + self._stray
            raise LLMError("server" if self._stray else "empty", text, self._status)
        if not self._said and not self._calls:
            text = "The model sent an empty answer."
            if self._finish == "length":
                text = (
                    "The model used up its tokens before it said a word; "
                    "raise model.max_tokens in /config.json."
                )
            raise LLMError("empty", text, self._status)
        self._handler.on_end(
            self._finish or ("tool_calls" if self._calls else "stop"), self._usage
        )

    # Bytes

    def _held(self):
        return bytes(memoryview(self._buf)[: self._n])

    def _keep(self, data, start, end):
        """Add `data[start:end]` to what is held; the buffer doubles, so the work stays linear."""
        need = self._n + end - start
        if need > len(self._buf):
            size = len(self._buf)
            while size < need:
                size *= 2
            grown = bytearray(size)
            grown[: self._n] = memoryview(self._buf)[: self._n]
            self._buf = grown
        if end > start:
            self._buf[self._n : need] = memoryview(data)[start:end]
            self._n = need

    def _sniff(self, data):
        """Find out from the first byte that means something what the reply is; return the rest."""
        text = bytes(data)
        i = 0
        while i < len(text) and text[i] in b" \t\r\n\xef\xbb\xbf":
            i += 1
        if i < len(text):
            first = text[i]
            if first == 0x3C:  # <
                self._mode = _HTML
            elif first in b"{[":
                self._mode = _BODY
            else:
                self._mode = _LINES
        return text[i:]

    def _feed_lines(self, data):
        data = bytes(data)
        start = 0
        while not self.done:
            end = data.find(b"\n", start)
            stop = end if end >= 0 else len(data)
            if self._n + stop - start > LINE_LIMIT:
                raise LLMError(
                    "server",
                    "The model server sent an event of more than {} bytes.".format(LINE_LIMIT),
                    self._status,
                )
            if end < 0:
                self._keep(data, start, stop)
                return
            if self._n:
                self._keep(data, start, stop)
                line = self._held()
                self._n = 0
            else:
                line = data[start:stop]
            self._line(line)
            start = end + 1

    def _feed_body(self, data):
        if self._n + len(data) > BODY_LIMIT:
            raise LLMError(
                "server",
                "The model server sent a reply of more than {} bytes in one piece; "
                "it has to stream.".format(BODY_LIMIT),
                self._status,
            )
        before = self._n
        self._keep(data, 0, len(data))
        if self._one_value:
            return
        # A whole object in the first line that says whether it goes on: Ollama's own stream.
        end = bytes(data).find(b"\n")
        if end < 0:
            return
        self._one_value = True
        line = bytes(memoryview(self._buf)[: before + end])
        if line.rstrip()[-1:] == b"}" and b'"done"' in line:
            rest = bytes(memoryview(self._buf)[before + end + 1 : self._n])
            self._n = 0
            self._mode = _LINES
            self._line(line)
            self._feed_lines(rest)

    # Lines

    def _line(self, line):
        line = line.strip()
        if line.startswith(b"data:"):
            line = line[5:].lstrip()
            if line == b"[DONE]":
                self.done = True
            elif line:
                self._event(self._parse(line))
        elif line.startswith(b"{"):
            self._event(self._parse(line))
        elif line and line[:1] != b":" and not line.startswith((b"event:", b"id:", b"retry:")):
            if not self._stray:
                self._stray = utf8_clean(line[:160])

    def _parse(self, data):
        try:
            try:
                return json_loads(data)
            except UnicodeError:
                return json_loads(utf8_clean(data))
        except ValueError:
            raise LLMError(
                "server",
                "The model server sent something that is not JSON: " + utf8_clean(data[:80]),
                self._status,
            )

    def _body(self, data):
        value = self._parse(data)
        if isinstance(value, dict) and ("choices" in value or "message" in value):
            self._event(value)
            if self._said or self._calls or self._finish is not None:
                self._finish = self._finish or "stop"
        elif isinstance(value, dict) and isinstance(value.get("content"), list):
            # Anthropic's own form
            self._message(value)
            self._finish = self._reason(value.get("stop_reason")) or "stop"
        elif value:
            raise _failures().error_of(value, self._status, self._retry_after)
        if self._finish is None and not self._said:
            raise LLMError("empty", "The model sent an empty answer.", self._status)

    # Events

    def _reason(self, reason):
        if not isinstance(reason, str) or not reason:
            return None
        return _FINISH.get(reason, reason)

    def _event(self, value):
        if not isinstance(value, dict):
            return
        if value.get("error"):
            raise _failures().error_of(value, self._status, self._retry_after)
        if isinstance(value.get("usage"), dict):
            self._usage = value["usage"]
        choices = value.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and not choice.get("index"):
                    self._choice(choice)
            return
        message = value.get("message")
        if isinstance(message, dict):
            # Ollama's own form
            self._message(message)
            if value.get("done"):
                self._finish = self._reason(value.get("done_reason")) or "stop"
                self.done = True
        elif message or value.get("detail"):
            raise _failures().error_of(value, self._status, self._retry_after)

    def _choice(self, choice):
        message = choice.get("delta")
        if not isinstance(message, dict):
            message = choice.get("message")
        if isinstance(message, dict):
            self._message(message)
        elif isinstance(choice.get("text"), str):
            self._say(choice["text"])
        self._finish = self._reason(choice.get("finish_reason")) or self._finish

    def _message(self, message):
        for name in ("reasoning_content", "reasoning", "thinking"):
            thought = message.get(name)
            if isinstance(thought, str):
                self._thought = True
                self._handler.on_reasoning(thought)
                break
        content = message.get("content")
        if isinstance(content, list):
            for part in content:
                self._part(part)
        else:
            self._say(content)
        self._say(message.get("refusal"))
        calls = message.get("tool_calls")
        if isinstance(calls, dict):
            calls = [calls]
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    self._call(call)

    def _say(self, text):
        if isinstance(text, str) and text:
            # A reply of nothing but blanks is an empty one, but blanks between words count.
            self._said = self._said or bool(text.strip())
            self._handler.on_text(text)

    def _part(self, part):
        if isinstance(part, str):
            self._say(part)
        elif isinstance(part, dict):
            if part.get("type") == "tool_use":
                part = {
                    "id": part.get("id"),
                    "function": {"name": part.get("name"), "arguments": part.get("input")},
                }
                self._call(part)
            elif part.get("type") != "thinking":
                self._say(part.get("text"))

    def _call(self, call):
        function = call.get("function")
        if not isinstance(function, dict):
            function = call
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        ident = call.get("id")
        ident = ident if isinstance(ident, str) else str(ident) if isinstance(ident, int) else ""
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        position = self._position(call.get("index"), ident, name)
        self._handler.on_tool(position, ident, name, arguments)

    def _position(self, index, ident, name):
        """Which call of the reply a piece belongs to. Some servers leave out the index, or give
        every call the index 0: then a new id, or a name, begins a new call."""
        calls = self._calls
        if not isinstance(index, int):
            index = None
        for i in range(len(calls) - 1, -1, -1):
            known, known_id = calls[i]
            if index is not None and known != index:
                continue
            if ident and known_id and ident != known_id:
                if index is None:
                    continue
                break
            if index is None and name and not (ident and ident == known_id):
                break
            if ident and not known_id:
                calls[i] = (known, ident)
            return i
        if len(calls) >= CALLS_LIMIT:
            raise LLMError(
                "server",
                "The model asked for more than {} tools at once.".format(CALLS_LIMIT),
                self._status,
            )
        calls.append((index, ident))
        return len(calls) - 1
