"""Lines that begin with `/`: answered by the board itself, without a model.

Owns their names and wording. Works through the agent's sessions; must not call a model. Imported
when the first command comes.
"""

from upyclaw.compat import civil_time, mem_free, unix_time
from upyclaw.storage import StorageError

HELP = (
    "/session list - the sessions of this chat\n"
    "/session new [NAME] - start another session\n"
    "/session switch NAME - go on with another session\n"
    "/session delete NAME - delete a session and its history\n"
    "/session trim - drop the oldest turns of this session\n"
    "/session info - size and state of this session\n"
    "/memory list | search WORDS | show ID | why ID - what is remembered\n"
    "/memory store TEXT | edit ID TEXT | pin ID | unpin ID | forget ID - change it\n"
    "/profile show | edit NAME TEXT | reset NAME - who you are, who the board is\n"
    "/context [TEXT] - what is sent to the model, and how big each part is\n"
    "/status - heap, flash, model, memory, clock\n"
    "/stop - end an answer early\n"
    "/help - this list"
)
SESSION_USAGE = "Usage: /session list | new [NAME] | switch NAME | delete NAME | trim | info"


def run(agent, chat, line):
    """Answer the command `line` of chat `chat`: (done, text for the user)."""
    words = line.split()
    name = words[0]
    try:
        if name == "/session":
            return _session(agent, chat, words[1:])
        if name == "/status":
            return True, _status(agent, chat)
        if name == "/stop":
            return True, "Nothing is running."
        if name == "/help":
            return True, HELP
    except StorageError as error:
        return False, str(error)
    return False, "There is no command {}; /help lists what there is.".format(name)


def _session(agent, chat, words):
    chats = agent.map(chat)
    verb = words[0] if words else "list"
    if len(words) < 2:
        if verb == "list":
            return True, _list(agent, chats)
        if verb == "info":
            return True, _info(agent, chat)
        if verb == "trim":
            return _trim(agent.session(chat))
        if verb == "new":
            return chats.new()
    elif len(words) == 2:
        if verb == "new":
            return chats.new(words[1])
        if verb == "switch":
            return chats.switch(words[1])
        if verb == "delete":
            return chats.delete(words[1])
    return False, SESSION_USAGE


def _list(agent, chats):
    sizes = {}
    for sid, _, size in agent.store.list():
        sizes[sid] = size
    out = ["Sessions:"]
    for alias, current in chats.list():
        size = sizes.get(chats.sid(alias), 0)
        out.append("* {} - {}{}".format(alias, _size(size), " (current)" if current else ""))
    return "\n".join(out)


def _size(n):
    return "{} bytes".format(n) if n < 1024 else "{} KB".format(n // 1024)


def _info(agent, chat):
    session = agent.session(chat)
    alias = agent.map(chat).current()[0]
    text = "Session {}: {} records, {} of {} KB, file {}.".format(
        alias, session.count, _size(session.size), agent.store.limit // 1024, session.name
    )
    if session.blocked:
        text += " It is full and takes no new lines until it is trimmed."
    return text


def _trim(session):
    before = session.size
    dropped = session.trim()
    if not dropped:
        return True, "Nothing to drop: this session has {}.".format(_size(before))
    # Where the turns are now belongs here, not under the next answer.
    said = session.take_notices()
    said.append("It has {} now, instead of {}.".format(_size(session.size), _size(before)))
    return True, "\n".join(said)


def _status(agent, chat):
    client = agent.client
    free = agent.store.free_blocks()
    out = ["heap: {} free".format(_size(mem_free()))]
    if free is not None:
        out.append("flash: {} free".format(_size(free * agent.store.block)))
    out.append(_info(agent, chat))
    if client.available:
        out.append("model: {}, context {} tokens".format(client.model or "?", client.context))
    else:
        out.append("model: " + client.why)
    if agent.net:
        about = agent.net.about()
        words = about.get("problem") or "{ssid}, {ip}, {rssi} dBm, {host}".format(**about)
        out.append("Wi-Fi: " + words)
    if agent.mind:
        states = agent.mind.worker.states()
        out.append("memory: {} items".format(len(agent.mind.store)))
        names = ("waiting", "running", "done", "failed", "dropped", "merged", "skipped")
        out.append("extraction: " + ", ".join(["{} {}".format(states[n], n) for n in names]))
        if states["last"]:
            out.append("last failure: " + states["last"])
    now = unix_time()
    day = "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC".format(*civil_time(now)[:6])
    out.append("clock: " + (day if now else "not set"))
    return "\n".join(out)
