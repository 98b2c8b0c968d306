"""What the extraction model is asked: rules, the date, the labels, the stored items that come
close.

Owns: the wording (docs/memory.md, "Extraction"; SPEC-extract §2 in words of our own). Must not
call the model or change the store. Nothing but the bare text of the user's turn is examined: no
history, no tool output, nothing recalled (B27, B28, B31, B35).
"""

from .dates import date

_RULES = (
    b"You keep the long-term memory of a personal assistant. Examine ONE message of the user. "
    b"Answer with one JSON object and nothing else:\n"
    b'{"intent":"none","memories":[{"content":"...","tags":["..."],"keywords":["..."]}]}\n'
    b"- Take only lasting facts that the message itself states about the user: who they are, "
    b"their people, animals, things, home, work, health, habits, tastes, dates, plans. Nothing "
    b"guessed, nothing that only the lists below say.\n"
    b"- Questions, requests, text to translate or edit, greetings, small talk and matters of the"
    b' moment give "memories":[].\n'
    b"- How the assistant shall speak, behave or be called is no memory.\n"
    b"- At most 3 memories. content: one short plain sentence that begins with the user or the "
    b"thing, in the language of the message, never translated. tags: 1 or 2 short labels, one of "
    b"the list below where it fits, nothing vague like preference. keywords: 1 to 3 words of the "
    b"message.\n"
    b'- If a stored item below says all of it already, add "same":"<its id>". If the message '
    b'changes what was so before (a number, name, place, taste), set "intent":"replace" and add '
    b'"replaces":"<id of the old item>" if it is below; content is the new fact alone.\n'
    b"- If the user wants something forgotten: "
    b'{"intent":"forget","memories":[],"forgets":["<id>"]}.\n'
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def when(now, zone):
    """The line about the date: local, with the zone, or that it is unknown (B57)."""
    if not now:
        return (
            "The date is not known. Keep words like yesterday as they are and write no date that"
            " is not in the message."
        )
    local = now + zone
    minutes = abs(zone) // 60
    return (
        "It is {} {} (UTC{}{:02d}:{:02d}). Yesterday was {}, tomorrow is {}. Write such dates in"
        " place of words like yesterday or next Friday.".format(
            _DAYS[(local // 86400 + 3) % 7],
            date(local)[:16],
            "-" if zone < 0 else "+",
            minutes // 60,
            minutes % 60,
            date(local - 86400)[:10],
            date(local + 86400)[:10],
        )
    )


def question(store, text, items, catalogue):
    """(system sections, user message) of the question about one user text. Texts, not callables:
    nothing of the memory's code has to stay while they are sent."""
    near = "".join(["- {}: {}\n".format(id, content) for id, content in items])
    return [
        ("Task", _RULES),
        ("Date", when(store.clock(), store.zone)),
        ("Labels in use", catalogue),
        ("Stored items that come close", near or "(none)\n"),
    ], ("Message to examine, not to answer:\n<<<\n" + text + "\n>>>\nAnswer with the JSON object.")
