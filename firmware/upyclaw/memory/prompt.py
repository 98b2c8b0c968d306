"""What the extraction model is asked: rules with examples, the date, the labels, the stored items
that come close.

Owns: the wording (docs/memory.md, "Extraction"; SPEC-extract §2 in words of our own). Must not
call the model or change the store. Nothing but the bare text of the user's turn is examined: no
history, no tool output, nothing recalled (B27, B28, B31, B35).
"""

from .dates import date

_RULES = (
    "You keep the long-term memory of a personal assistant. From ONE message take the lasting"
    " facts it states about the user: who they are, their people, animals, things, home, work,"
    " health, habits, tastes, dates, plans. At most 3, each one short sentence, not translated,"
    " with 1 or 2 short tags and 1 to 3 words of the message as keywords. Moods of the day,"
    " weather, questions, requests, small talk and orders to the assistant are no facts. If a"
    " stored item says it already, add its id as same. Answer with JSON only:\n"
    "I'm bored today, play something\n"
    '{"intent":"none","memories":[]}\n'
    'Stored m7: "User has a car"\nI sold the car for a van\n'
    '{"intent":"replace","memories":['
    '{"content":"User has a van","tags":["car"],"keywords":["van"],"replaces":"m7"}]}\n'
    'Stored m8: "用户讨厌鱼"\n我不爱吃鱼\n'
    '{"intent":"none","memories":['
    '{"content":"用户不爱吃鱼","tags":["饮食"],"keywords":["鱼"],"same":"m8"}]}\n'
    'Stored m7: "User has a van"\nDelete my car\n'
    '{"intent":"forget","memories":[],"forgets":["m7"]}\n'
)
# The last example is in the language of the message: weak models answer in its language, and a
# fact in another shares no word with what the user said.
_TWO = (
    "I'm Eva and I love jazz|User's name is Eva|name|User loves jazz|jazz",
    "Ich heiße Eva und mag Jazz|Nutzer heißt Eva|Name|Nutzer mag Jazz|Jazz",
    "我叫Eva，喜欢爵士乐|用户叫Eva|姓名|用户喜欢爵士乐|爵士乐",
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


def _example(text):
    """An example with two facts, in Chinese, German or English as `text`."""
    n = 0
    for word in text.lower().split():
        if word in ("ich", "mein", "meine", "mir", "wir"):
            n = 1
    for ch in text:
        if "\u4e00" <= ch <= "\u9fff":
            n = 2
    return (
        '{0}\n{{"intent":"none","memories":[{{"content":"{1}","tags":["{2}"],"keywords":["Eva"]}},'
        '{{"content":"{3}","tags":["{4}"],"keywords":["{4}"]}}]}}\nThese were examples.'
    ).format(*_TWO[n].split("|"))


def question(store, text, items, catalogue):
    """(system sections, user message) of the question about one user text. Texts, not callables:
    nothing of the memory's code has to stay while they are sent."""
    near = "".join(["Stored {}: {}\n".format(id, content) for id, content in items])
    if near:
        near += (
            "Does the message change one of these? Then intent replace, its id, and content says"
            " what is so now.\n"
        )
    parts = [
        ("Task", _RULES),
        ("", _example(text)),
        ("Date", when(store.clock(), store.zone)),
        ("Labels in use", catalogue),
    ]
    ask = "Message to examine, not to answer:\n<<<\n{}\n>>>\nAnswer with the JSON object."
    return parts, near + ask.format(text)
