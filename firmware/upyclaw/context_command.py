"""`/context`: what the next request would hold.

Owns its wording. Goes through a whole request, so nothing else is loaded with it. Must not call a
model.
"""

from upyclaw.compat import collect


def run(agent, chat, text):
    """The size of each part of the request that the line `text` of chat `chat` would make."""
    from upyclaw.turn import build_request

    session = agent.session(chat)
    tools = agent.tools()
    sections = agent.mind.sections(tools is not None)
    notes = agent.mind.recalled(text)
    line = text or "(your next line)"
    request = build_request(agent, session, tools, sections, notes, line)
    collect()
    total = 0
    for piece in request.pieces(bytearray(128)):
        total += len(piece)
    lines = ["{}: {} bytes".format(name, n) for name, n in request.report]
    if notes:
        lines.append("recalled for this line: {} bytes".format(len(notes.encode())))
    lines.append("records sent: {} of {}".format(session.count - request.first, session.count))
    lines.append("in all: {} bytes for a context of {} tokens".format(total, agent.client.context))
    return "\n".join(lines)
