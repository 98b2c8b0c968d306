"""What a record says: role, texts, tool calls and results, as places in the record.

Owns: the reading of message shapes (OpenAI, Anthropic blocks, responses; SPEC-session §4, §8; B12,
B14, B40) into `Message`. Takes what the JSON says over what the idx says. Must not hold texts.

A text is (kind, start, end): the bytes of the record from `start` to `end`, to be sent so:
"""

from upyclaw.compat import const, json_loads, utf8_clean
from upyclaw.prompt.clean import NAME, is_blank, tool_name
from upyclaw.prompt.cursor import Broken

CLEAN = 0  # inside of a string, byte for byte
DIRTY = 1  # inside of a string that needs cleaning
JSON = 2  # a JSON value, as a string

MESSAGES = 32  # results of one record; more are not looked at
CALLS = 32
TEXTS = 64
_ID = const(64)  # raw bytes of an id that is compared as text; longer ones by length and checksum
_ARGUMENTS = const(512)  # bytes of arguments that are checked to be JSON

_ROLES = {1: "user", 2: "assistant", 3: "assistant", 4: "tool"}
_TEXT_PARTS = ("", "text", "input_text", "output_text")
_REASONING = ("reasoning_content", "reasoning")


class Call:
    """One tool call. `ident`: its id as str, the place (start, end) of a long one, None if it has
    none. `exact`: it can be sent as the record has it."""

    def __init__(self):
        self.ident = None
        self.name = ""
        self.arguments = None  # a text, or None for none
        self.exact = False


class Message:
    """One message of a record."""

    def __init__(self):
        self.role = ""
        self.texts = []  # without blank ones
        self.calls = []
        self.calls_at = None  # (start, end) of tool_calls if it can be sent as it stands
        self.ident = None  # of a result, as Call's
        self.reasoning = None  # (key, text)
        self._other = None  # content that is neither string nor list


def _short(cur, limit):
    """The string just read as str, None if it is longer than `limit` raw bytes or not sound."""
    raw = cur.text
    if cur.dirty or len(raw) > limit:
        return None
    if b"\\" not in raw:
        return utf8_clean(raw)
    try:
        return json_loads(b'"' + raw + b'"')
    except ValueError:
        return None


def _ident(cur):
    if cur.peek() != 34:
        cur.value()
        return None
    start, end = cur.string(_ID)
    text = _short(cur, _ID)
    if text is not None:
        return None if is_blank(text) else text
    if cur.dirty or b"\\" in cur.text or end - start <= _ID:
        return None
    return start, end


def _text(cur, keep=0):
    """Take a string; returns it as a text, None if it is blank."""
    start, end = cur.string(keep)
    if cur.blank:
        return None
    return (DIRTY if cur.dirty else CLEAN, start, end)


def _members(cur):
    """Yield the key of each member of the object that comes; the caller takes the value."""
    cur.take(123)
    if cur.try_take(125):
        return
    while True:
        yield cur.key()
        if not cur.try_take(44):
            break
    cur.take(125)


def _elements(cur):
    """Yield the first byte of each element of the array that comes; the caller takes it."""
    cur.take(91)
    if cur.try_take(93):
        return
    while True:
        yield cur.peek()
        if not cur.try_take(44):
            break
    cur.take(93)


def _arguments(cur, call):
    """Take a call's arguments. Half a JSON text, cut by a token limit, counts as none (B17)."""
    c = cur.peek()
    if c != 34:
        start, end = cur.value()
        call.arguments = None if c == 0x6E else (JSON, start, end)
        return False
    call.arguments = _text(cur, _ARGUMENTS)
    if call.arguments is None:
        return False
    if len(cur.text) <= _ARGUMENTS:
        try:
            # Line ends inside strings are let pass, as the tools' own reader does.
            json_loads((_short(cur, _ARGUMENTS) or "").replace("\n", " ").replace("\t", " "))
        except (ValueError, RuntimeError):  # the latter: brackets too deep
            call.arguments = None
            return False
    return call.arguments[0] == CLEAN


def _call(cur):
    call = Call()
    typed = False
    exact = 0
    for key in _members(cur):
        c = cur.peek()
        if key == "id":
            call.ident = _ident(cur)
        elif key == "type" and c == 34:
            cur.string(16)
            typed = cur.word() == "function"
        elif key == "function" and c == 123:
            for inner in _members(cur):
                if inner == "name" and cur.peek() == 34:
                    cur.string(NAME)
                    name = _short(cur, NAME) or ""
                    call.name = tool_name(name)
                    exact += bool(name) and call.name == name
                elif inner == "arguments":
                    exact += 2 * _arguments(cur, call)
                else:
                    cur.value()
        else:
            cur.value()
    call.exact = typed and exact == 3 and not cur.unclean
    return call


def _calls(cur, message):
    unclean = cur.unclean
    cur.unclean = False
    message.calls = []
    start = cur.at()
    exact = True
    for c in _elements(cur):
        if c != 123:
            cur.value()
            exact = False
            continue
        call = _call(cur)
        exact = exact and call.exact and len(message.calls) < CALLS
        if call.name and len(message.calls) < CALLS:
            message.calls.append(call)
    message.calls_at = (start, cur.at()) if exact and not cur.unclean else None
    cur.unclean = cur.unclean or unclean


def _part(cur, message):
    """Take one block of a content list."""
    kind = ""
    text = None
    call = Call()
    for key in _members(cur):
        c = cur.peek()
        if key == "type" and c == 34:
            cur.string(16)
            kind = cur.word()
        elif key == "text" and c == 34:
            text = _text(cur)
        elif key == "id":
            call.ident = _ident(cur)
        elif key == "name" and c == 34:
            cur.string(NAME)
            call.name = tool_name(_short(cur, NAME) or "")
        elif key == "input":
            start, end = cur.value()
            call.arguments = (JSON, start, end) if c == 123 else None
        else:
            cur.value()
    if kind == "tool_use":
        if call.name and len(message.calls) < CALLS:
            message.calls.append(call)
    elif text and kind in _TEXT_PARTS and len(message.texts) < TEXTS:
        message.texts.append(text)


def _content(cur, message):
    message.texts = []
    message._other = None
    c = cur.peek()
    if c == 34:
        text = _text(cur)
        if text:
            message.texts.append(text)
    elif c == 91:
        start = cur.at()
        for e in _elements(cur):
            if e == 123:
                _part(cur, message)
            elif e == 34:
                text = _text(cur)
                if text and len(message.texts) < TEXTS:
                    message.texts.append(text)
            else:
                cur.value()
        message._other = (JSON, start, cur.at())
    else:
        start, end = cur.value()
        message._other = None if c == 0x6E else (JSON, start, end)


def _message(cur, rtype):
    message = Message()
    message.role = _ROLES.get(rtype, "")
    for key in _members(cur):
        c = cur.peek()
        if key == "role" and c == 34:
            cur.string(16)
            word = cur.word()
            message.role = word if word in ("user", "assistant", "tool") else ""
        elif key == "content":
            _content(cur, message)
        elif key == "tool_calls" and c == 91:
            _calls(cur, message)
        elif key == "tool_call_id":
            message.ident = _ident(cur)
        elif key in _REASONING and c == 34:
            start, end = cur.string()
            message.reasoning = (key, (DIRTY if cur.dirty else CLEAN, start, end))
        else:
            cur.value()
    if message.role == "tool" and not message.texts and message._other:
        message.texts.append(message._other)
    return message


def read_record(cur, i, rtype):
    """The messages of record `i`, whose idx type is `rtype` (used where the JSON names no role).

    Returns a list, None if the record is not JSON. Raises what the session's `chunks` raises.
    """
    cur.open(i)
    messages = []
    try:
        c = cur.peek()
        if c == 123:
            messages.append(_message(cur, rtype))
        elif c == 91:
            for e in _elements(cur):
                if e == 123 and len(messages) < MESSAGES:
                    messages.append(_message(cur, rtype))
                else:
                    cur.value()
        else:
            cur.value()
        if cur.peek() >= 0:
            raise Broken()
    except Broken:
        return None
    return messages
