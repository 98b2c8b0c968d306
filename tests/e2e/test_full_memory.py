"""A full memory on the smallest board: 128 items and a session of 150,000 bytes in 192 KB of heap.

Everything a person can do with the memory must work there, again and again, and silently given up
work counts as failed: a label list or a recall that was left out, a tool that found no room.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.rig import completion, with_client
from upyclaw_host.bench.boards import SESSIONS, session_files
from upyclaw_host.chat import ChatClient, TurnResult
from upyclaw_host.flash.image import open_image
from upyclaw_host.relay import Relay
from upyclaw_host.relay.provider import Recorder
from upyclaw_host.relay.script import Line, ScriptProvider
from upyclaw_host.sim import SimBoard

ITEMS = 128
# Bytes by which the idle heap may differ between two rounds of the same talk: what waits for the
# digest, the labels of that round, and one module that an old word on the C stack still points to.
DRIFT = 4096
ROUNDS = 2

# name, who, town, work, pet, dish, hobby, month: four facts about each of 32 people.
PEOPLE = """
Tomas|brother|Porto|restores church organs|two greyhounds|pumpkin risotto|kite surfing|March
Ingrid|aunt|Bergen|teaches harbour pilots|a blind parrot|cardamom buns|ice swimming|February
Rafael|neighbour|Valencia|repairs accordions|three tortoises|saffron rabbit|bell ringing|June
Marie-Luise|Schwester|Görlitz|näht Kostüme|einen Dackel|Grünkohlauflauf|Orientierungslauf|Mai
Kwame|colleague|Kumasi|designs flood sensors|a tabby cat|groundnut stew|table tennis|August
Yuki|classmate|Sapporo|carves wooden stamps|a hamster|miso ramen|figure skating|January
Olena|cousin|Lviv|bakes poppy-seed rolls|an old mare|beetroot soup|choir singing|October
Babak|dentist|Shiraz|collects antique maps|four canaries|barberry rice|chess problems|April
Siobhan|godmother|Galway|translates legal Irish|a wolfhound|seaweed bread|fiddle music|November
Jerome|landlord|Lyon|grafts apple trees|a hedgehog|lentil salad|pigeon racing|September
Annika|trainer|Tampere|tests climbing ropes|two ferrets|rye porridge|orienteering|July
Mateo|nephew|Oaxaca|weaves palm hats|an iguana|mole negro|marimba|December
Priya|doctor|Mysuru|studies sleep disorders|a peahen|lemon rice|veena practice|May
Hamid|barber|Fez|engraves brass trays|a donkey|chickpea soup|oud making|March
Greta|flatmate|Malmö|programs tram signals|a goldfish|dill potatoes|unicycling|June
Leopold|grandfather|Graz|built cable cars|a dachshund|plum dumplings|mushroom hunting|January
Zanele|mentor|Durban|surveys coral reefs|a gecko|bunny chow|long-board surfing|August
Pavel|uncle|Brno|tunes racing engines|a lynx cub|garlic soup|model railways|February
Noemi|sister|Cluj|paints glass icons|a magpie|polenta bake|folk dancing|October
Duarte|friend|Funchal|distils sugar cane|a podengo|tuna steaks|levada hiking|April
Aroha|teacher|Rotorua|records bird song|a kunekune pig|kumara fritters|waka paddling|July
Enzo|plumber|Bari|moulds terracotta|a street cat|orecchiette|bocce|May
Solveig|daughter|Tromsø|measures aurora light|a husky|cloudberry cream|ski touring|December
Idris|driver|Kano|dyes indigo cloth|a camel|millet cakes|horse riding|November
Lan|niece|Hue|folds paper lanterns|a gibbon|lotus seeds|shuttlecock|September
Wanda|librarian|Gdynia|binds old atlases|a corgi|herring salad|sea kayaking|March
Oscar|son|Cusco|guides high treks|a llama|quinoa soup|pan flute|June
Farah|boss|Amman|audits solar farms|a falcon|maqluba|desert running|January
Dimitri|baker|Patras|keeps a sourdough school|a goat|spinach pie|rebetiko|August
Chiara|pen friend|Trieste|maps limestone caves|a newt|jota stew|speleology|February
Bjarne|mechanic|Aarhus|rebuilds wooden boats|a spaniel|smoked eel|winter bathing|October
小明|同事|成都|修理老式收音机|一只橘猫|麻婆豆腐|打太极拳|四月
"""
FACTS = (
    "User's {1} {0} lives in {2} and {3} in a small workshop near the old railway station there",
    "{0} has {4} at home, so user always brings a bag of treats along when visiting {2}",
    "When {0} visits, user cooks {5} without any onions or nuts, since an allergy was found",
    "{0}'s birthday is on the {8} of {7}; the best present is something for {6}, never perfume",
)
TOPICS = ("work", "pets", "food", "birthday")


def _fill(folder: Path) -> None:
    """The memory of a board on which a lot was said, made by the board's own code."""
    from upyclaw.memory.store import MemoryStore

    store = MemoryStore(folder.as_posix())
    for number, row in enumerate(PEOPLE.strip().split("\n")):
        fields = row.split("|")
        for fact, topic in zip(FACTS, TOPICS, strict=True):
            content = fact.format(*fields, number % 28 + 1)
            assert 60 <= len(content.encode()) <= 200
            how, _, _ = store.store(content, f"{fields[0]},{topic},{fields[2]}", "", "auto_llm")
            assert how == "new"
    assert len(store) == ITEMS
    store.flush()
    store.release()


def prepare(flash: Path, folder: Path) -> None:
    """Put 128 items and a session of 150,000 bytes, which makes room by itself, on `flash`."""
    _fill(folder / "memory")
    with open_image(flash, write=True) as image:
        image.write("/config.json", b'{"session":{"when_full":"trim"}}')
        for path in (folder / "memory").iterdir():
            image.write(f"/data/memory/{path.name}", path.read_bytes())
        for name, data in session_files(150_000, 300).items():
            image.write(f"{SESSIONS}/{name}", data)


class Model(ScriptProvider):
    """Answers the chat from `say` in order; an extraction stores what the examined text says."""

    def __init__(self, folder: Path) -> None:
        script = folder / "script.jsonl"
        script.write_text("")
        super().__init__(script, Recorder(None))
        self.say: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []  # chat requests
        self.examined: list[str] = []
        self.slow = 0.0  # seconds until an extraction is answered
        self._now: dict[str, dict[str, Any]] = {}

    async def stream(self, request: dict[str, Any], kind: str):  # type: ignore[no-untyped-def]
        """The next reply of this kind."""
        if kind == "chat":
            self.asked.append(request)
            self._now[kind] = self.say.pop(0)
        else:
            text = request["messages"][-1]["content"]
            said = text[text.index("<<<\n") + 4 : text.index("\n>>>")]
            self.examined.append(said)
            facts = [
                {"content": "User " + line.partition(" ")[2].rstrip("."), "tags": ["trivia"]}
                for line in said.split("\n")
            ]
            self._now[kind] = completion(json.dumps({"intent": "none", "memories": facts}))
            await asyncio.sleep(self.slow)
        async for item in super().stream(request, kind):
            yield item

    def _take(self, kind: str) -> Line:
        return Line(200, 0, self._now[kind], False, 0, None)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """The body of a reply that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


class Talk:
    """One person at the full board; every method fails loudly where something was given up."""

    def __init__(self, client: ChatClient, model: Model) -> None:
        self.client = client
        self.model = model
        self.trace: Callable[[str, TurnResult], None] = lambda line, turn: None

    async def line(self, line: str, *replies: dict[str, Any]) -> TurnResult:
        self.model.say = list(replies)
        turn = await self.client.turn(line)
        self.trace(line, turn)
        assert turn.ok, (line, turn)
        assert not self.model.say, line
        return turn

    async def command(self, line: str, *expected: str) -> str:
        turn = await self.line(line)
        for words in expected:
            assert words in turn.text, (line, turn.text)
        return turn.text

    async def chat(self, line: str, recalled: str = "") -> None:
        """A plain turn: the labels went along, and what fits the line."""
        reply = "That is good to know, and I will answer at some length. " * 8
        turn = await self.line(line, completion(reply))
        assert turn.text.strip() == reply.strip()
        self.sent(recalled)

    def sent(self, recalled: str = "", requests: int = 1) -> None:
        """One of the last `requests` had the labels: after a tool that had to make room the next
        one may be without."""
        systems = [request["messages"][0]["content"] for request in self.model.asked[-requests:]]
        assert any("- birthday\n" in system for system in systems), systems
        messages = self.model.asked[-1]["messages"]
        last = [m for m in messages if m["role"] == "user"][-1]["content"]
        assert recalled in last, last

    async def tool(self, line: str, name: str, *expected: str, **arguments: Any) -> str:
        """A turn in which the model calls a tool and then answers."""
        await self.line(line, call(name, **arguments), completion("Done, as you wish."))
        self.sent(requests=2)
        result = str(self.model.asked[-1]["messages"][-1]["content"])
        assert self.model.asked[-1]["messages"][-1]["role"] == "tool"
        for words in ('"ok":true', *expected):
            assert words in result, (name, result)
        return result

    async def settled(self) -> str:
        """Wait until nothing is left to extract; what /status says then."""
        for _ in range(200):
            text = await self.command("/status", "extraction: ")
            # As good as full: each round forgets a few.
            assert re.search(r"memory: 12[4-8] items", text), text
            if "0 waiting, 0 running" in text:
                assert " 0 failed" in text, text
                return text
            await asyncio.sleep(0.2)
        raise AssertionError(text)


def _id(text: str) -> str:
    found = re.search(r"mem-\d+-\d+", text)
    assert found, text
    return found.group()


WORDS = ("amber", "basalt", "cobalt", "denim", "ebony", "flint", "garnet", "hazel", "ivory")


async def everything(talk: Talk, number: int) -> int:
    """One round of all there is; the idle heap at its end. `number` makes it different."""
    word = WORDS[number % len(WORDS)] + str(number)
    await talk.chat("Good evening! What shall we talk about?")
    await talk.chat("What was it again that Chiara keeps at home?", "a newt")
    await talk.tool(
        "Which dish does Bjarne like?", "memory_recall", "smoked eel", query="Bjarne dish eel"
    )
    await talk.tool("And by label?", "memory_recall", "Patras", summary_labels=["Dimitri"])
    await talk.tool("Tell me all.", "memory_list", '"more":')
    stored = await talk.tool(
        f"Keep this: the spare key hangs behind the {word} vase.",
        "memory_store",
        '"changed":true',
        content=f"User's spare key hangs behind the {word} vase",
        tags="home,key",
    )
    await talk.tool(
        "No, under it.",
        "memory_update",
        memory_id=_id(stored),
        content=f"User's spare key lies under the {word} vase",
    )
    await talk.tool("Forget it.", "memory_forget", memory_id=_id(stored))
    # Five facts in a row, faster than they can be extracted.
    before = len(talk.model.examined)
    for fact in (
        f"I keep a {word} lighthouse model on the shelf.",
        f"I bought a {word} bicycle lamp in Utrecht.",
        f"I once won the {word} cup in archery.",
        f"I drink {word} tea every Sunday morning.",
        f"I have written a poem about {word} herons.",
    ):
        await talk.chat(fact)
    await talk.settled()
    assert len(talk.model.examined) > before
    for noun in ("lighthouse", "bicycle", "archery", "tea", "herons"):
        assert noun in "\n".join(talk.model.examined[before:])
    await talk.command(f"/memory search {word} herons", f"poem about {word} herons")
    # Orders.
    turn = await talk.line(f"Remember: the {word} bin is emptied on Thursday.")
    assert turn.text.startswith("Remembered: "), turn
    turn = await talk.line(f"Remember that my {word} umbrella is at the office.")
    assert turn.text.startswith("Remembered: "), turn
    turn = await talk.line(f"Forget the {word} umbrella at the office.")
    assert turn.text == "Forgotten: 1 memory.", turn
    await talk.command(f"/memory store The {word} parcel shop closes at six", "Stored: mem-")
    # Commands.
    await talk.command("/memory list", "/memory list 2")
    await talk.command("/memory list 7", "mem-")
    id = _id(await talk.command(f"/memory search {word} parcel shop", "closes at six"))
    await talk.command(f"/memory show {id}", "closes at six", "source: manual")
    await talk.command(f"/memory pin {id}", "Pinned")
    await talk.command(f"/memory edit {id} The {word} parcel shop closes at seven", "Changed")
    await talk.command(f"/memory why {id}", "from manual")
    await talk.command(f"/memory unpin {id}", "Not pinned")
    await talk.command("/context", "history: ", "records sent: ", "tools: ")
    await talk.command("/context What does Dimitri keep at home?", "recalled for this line: ")
    await talk.command("/profile show", "soul.md", "identity.md")
    await talk.command(f"/profile edit user Called Ada, likes {word}.", "Written")
    await talk.command("/session info", "150 KB")
    await talk.command("/help", "/memory list")
    await talk.chat("Where does Oscar live?", "Cusco")
    await talk.command(f"/memory forget {id}", "Forgotten")
    await talk.settled()
    # Idle: what only a turn or a command needs is gone.
    await talk.client.link.status()
    return int((await talk.line("/session list")).heap_free or 0)


@pytest.fixture
def full_flash(flash: Path, tmp_path: Path) -> Path:
    prepare(flash, tmp_path)
    return flash


def test_everything_again_and_again(full_flash: Path, tmp_path: Path) -> None:
    model = Model(tmp_path)
    idle: list[int] = []

    async def run(client: ChatClient) -> None:
        talk = Talk(client, model)
        for number in range(ROUNDS):
            idle.append(await everything(talk, number))

    with SimBoard(full_flash) as board:
        with_client(board.port, Relay(model), run)
        assert board.failure is None
    # Nothing stays behind.
    assert max(idle) - min(idle) <= DRIFT, idle


def test_lines_over_an_extraction_that_takes_its_time(full_flash: Path, tmp_path: Path) -> None:
    """A slow model is asked about one line while the next ones come: no reply waits for it."""
    model = Model(tmp_path)
    model.slow = 4.0

    async def run(client: ChatClient) -> None:
        talk = Talk(client, model)
        await talk.chat("I keep a brass sextant on the shelf.")
        for _ in range(100):
            if model.examined:
                break
            await asyncio.sleep(0.1)
        assert model.examined
        await talk.chat("What was it again that Chiara keeps at home?", "a newt")
        await talk.chat("And where does Oscar live?", "Cusco")
        await talk.settled()
        await talk.command("/memory search sextant", "sextant on the shelf")

    with SimBoard(full_flash) as board:
        with_client(board.port, Relay(model), run)
