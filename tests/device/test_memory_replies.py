"""Long-term memory in talks as people have them: lines, what a model answers to them, what must be
kept. The replies are written by hand, in the ways that models answer."""

import json
import os

from upyclaw.compat import json_loads
from upyclaw.memory import filter, gates, similar, spot
from upyclaw.memory.store import MemoryStore


def data():
    with open(os.getenv("UPYCLAW_TEST_DATA") + "/memory/talks.json", "rb") as f:
        return json_loads(f.read())


def known_as(store, part):
    """Id of the one item whose content holds `part`."""
    found = [item["id"] for item in store.items() if part in item["content"]]
    assert len(found) == 1, (part, found)
    return found[0]


def answer(store, given):
    """The reply's text: in it `<part>` stands for the id of the item that holds `part`."""
    text = json.dumps(given)
    for name in ("same", "replaces", "forgets"):
        for entry in [given] + given.get("memories", []):
            for part in (entry.get(name) or "").split("|"):
                if part[:1] == "<":
                    text = text.replace(json.dumps(part)[1:-1], known_as(store, part[1:-1]))
    return text


def line(store, turn):
    """One line of a talk through filter, offer and gates; what became of it."""
    said = turn["said"]
    why = filter.why_not(said)
    if "reply" not in turn:
        assert why, said
        return []
    assert not why and spot.order(said)[0] != "store", (said, why)
    offered = [id for id, _ in similar.similar(store, said)]
    results = gates.apply(store, answer(store, turn["reply"]), said, offered)
    assert results is not None, said
    return [result.what for result in results]


def test_talks(root):
    talks = data()
    assert len(talks) >= 3
    for number, talk in enumerate(talks):
        store = MemoryStore(root + "/%d" % number, clock=lambda: 1796026877)
        for turn in talk["turns"]:
            assert line(store, turn) == turn["what"], turn["said"]
        store = MemoryStore(root + "/%d" % number, clock=lambda: 1796026877)
        assert [item["content"] for item in store.items()] == talk["kept"], talk["name"]
        store.sleep()


def test_few_letters_that_tell_something():
    for text in ("I'm 36.", "I'm 5'9", "我36岁", "我 36", "Ich bin 4."):
        assert filter.why_not(text) is None, text
    for text in ("ok 2", "36", "7:15?", "1, 2, 3", "1"):
        assert filter.why_not(text) in ("small talk", "question"), text


def test_orders_about_manner_need_no_model():
    for text in (
        "Always answer me in rhymes.",
        "From now on, answer in German!",
        "Please be more formal",
        "Antworte mir immer auf Deutsch",
        "以后请用英文回答我",
        "请你用简短的话跟我说",
    ):
        assert filter.why_not(text) == "request", text
    # They tell something beside.
    for text in (
        "Answer in German, I am from Munich.",
        "Always answer in German. I am from Munich.",
        "From now on I work in Bonn.",
        "From now on you can reach my sister in Oslo",
        "请用英文回答，我是美国人",
        "以后请叫我小明",
        "Call me Addie.",
        "You're right, Tom has two dogs.",
        "Be it as it may, Tom has two dogs",
    ):
        assert filter.why_not(text) is None, text


def test_orders_told_as_facts_stay_out(root):
    store = MemoryStore(root, clock=lambda: 1796026877)
    for said, content in (
        ("I want you to answer in rhymes", "User wants answers in rhymes"),
        (
            "I like it when you answer in short sentences",
            "User prefers answers in short sentences",
        ),
        ("Short answers, please, I am busy", "The user prefers short answers"),
        ("我希望你用英文回答", "用户希望用英文回答"),
        ("我更喜欢简短的回答", "用户喜欢简短的回答"),
    ):
        text = json.dumps({"memories": [{"content": content, "tags": ["style"]}]})
        results = gates.apply(store, text, said)
        assert [result.what for result in results] == ["dropped"], content
    for content in (
        "User answers the phone at work",
        "User prefers the phone at work",
        "用户回答了三个问题",
    ):
        text = json.dumps({"memories": [{"content": content, "tags": ["work"]}]})
        results = gates.apply(store, text, "I answer the phone at work. 我回答了三个问题")
        assert [result.what for result in results] == ["stored"], content


def test_a_changed_number_or_name_is_not_the_same(root):
    store = MemoryStore(root, clock=lambda: 1796026877)

    def told(said, content, id, **more):
        more["memories"] = [{"content": content, "tags": ["x"], "same": id}]
        return [r.what for r in gates.apply(store, json.dumps(more), said, [id])]

    phone = store.store("Lena's phone number is 040 123456", "phone")[1]
    home = store.store("User's sister Lena lives in Oslo", "family")[1]
    age = store.store("用户的女儿5岁", "家庭")[1]
    assert told("It is 040 123456", "Lena's phone number is 040 123456.", phone) == ["same"]
    assert told("My sister is in Oslo", "The sister of User lives in Oslo", home) == ["same"]
    assert told("Lena has 040 123999 now", "Lena's phone number is 040 123999", phone) == [
        "stored"
    ]
    assert told("Lena moved to Bergen", "User's sister Lena lives in Bergen", home) == ["stored"]
    assert told("我的女儿6岁了", "用户的女儿6岁", age) == ["stored"]
    # With the intent to correct, the item so named is the one that is corrected.
    change = {"intent": "replace"}
    assert told("Lena lives in Rome", "Lena lives in Rome", home, **change) == ["replaced"]
    assert store.get(home)["content"] == "Lena lives in Rome"
    assert told("我的女儿7岁了", "用户的女儿7岁", age, **change) == ["replaced"]
    assert store.get(age)["content"] == "用户的女儿7岁"


def test_labels_that_say_nothing(root):
    # Replies of SmolLM2-135M, held to the form.
    store = MemoryStore(root, clock=lambda: 1796026877)
    for said, content, tags, keywords, labels in (
        (
            "Hello! My name is Ada and my gate code is 4417.",
            "Hello, my name is Ada and my gate code is 4417.",
            ["...", "..."],
            ["...", "..."],
            "Hello",
        ),
        (
            "I live in Kiel with my dog Biscuit.",
            "I live in Kiel with my dog Biscuit.",
            ["I", "Kiel"],
            ["I", "Kiel"],
            "Kiel",
        ),
        ("我喜欢喝茶", "用户喜欢喝茶", ["喜欢", "茶"], ["茶"], "茶"),
    ):
        entry = {"content": content, "tags": tags, "keywords": keywords}
        text = json.dumps({"intent": "none", "memories": [entry]})
        results = gates.apply(store, text, said)
        assert [r.what for r in results] == ["stored"], content
        item = store.get(results[0].id)
        assert item["tags"] == labels, item
        assert "..." not in item["keywords"] and "I," not in item["keywords"], item


def test_replies_of_a_model_of_1_5_b(root):
    # Real replies of a model with 1.5 billion parameters to the extraction prompt.
    store = MemoryStore(root, clock=lambda: 1796026877)

    def told(said, reply, offered=None):
        return [(r.what, r.content) for r in gates.apply(store, reply, said, offered)]

    # It copies the question beside the fact, or turns the whole round.
    assert told(
        "Could you recommend a book? I love science fiction.",
        '{"intent":"none","memories":[{"content":"Could you recommend a book? I love science'
        ' fiction.","tags":["book","science fiction"],"keywords":["book","love"]}]}',
    ) == [("stored", "I love science fiction")]
    assert [
        what
        for what, _ in told(
            "I'm vegetarian, what could I cook tonight?",
            '{"intent":"none","memories":[{"content":"You are vegetarian, what could you cook'
            ' tonight?","tags":["food"],"keywords":["vegetarian"]}]}',
        )
    ] == ["dropped"]
    assert told(
        "我对花生过敏，给我推荐一道菜吧",
        '{"intent":"none","memories":[{"content":"我对花生过敏","tags":["饮食"],"keywords":["花生"],'
        '"same":"m9"},{"content":"给我推荐一道菜吧","tags":["饮食"],"keywords":["菜","推荐"]}]}',
    ) == [("stored", "我对花生过敏"), ("dropped", "给我推荐一道菜吧")]
    # Of a secret alone nothing is left.
    assert told(
        "My API key is sk-proj-abcdef1234567890ABCDEF",
        '{"intent":"none","memories":[{"content":"sk-proj-abcdef1234567890ABCDEF",'
        '"tags":["API","key","sk"],"keywords":["API key","sk"]}]}',
    ) == [("dropped", "***")]
    # One fact without the list around it.
    phone = store.store("用户的手机号是13812345678", "手机")[1]
    assert told(
        "我的手机号换了，新号码是13900001111",
        '{"intent":"replace","replaces":"%s","content":"用户的手机号是13900001111"}' % phone,
        [phone],
    ) == [("replaced", "用户的手机号是13900001111")]
    # To a correction of one item it asks to forget the other that it was shown.
    nora = store.store("User's sister Nora lives in Oslo", "family")[1]
    tom = store.store("User's brother Tom lives in Rome", "family")[1]
    assert told(
        "Nora now lives in Bergen.",
        '{"intent":"replace","memories":[{"content":"User\'s sister Nora lives in Bergen",'
        '"tags":["location","brother","Nora"],"keywords":["Nora","Bergen"],"replaces":"%s"}],'
        '"forgets":["%s"]}' % (nora, tom),
        [nora, tom],
    ) == [("dropped", ""), ("replaced", "User's sister Nora lives in Bergen")]
    assert store.get(tom)


def test_a_second_fact_does_not_overwrite_the_correction(root):
    # A real reply of a 1.5B model: the second fact would have taken the first one's place.
    store = MemoryStore(root, clock=lambda: 1796026877)
    kiel = store.store("User lives in Kiel", "home")[1]
    store.store("User has a dog named Biscuit", "dog")
    results = gates.apply(
        store,
        '{"intent":"replace","memories":[{"content":"User lives in Hamburg","tags":["home"],'
        '"keywords":["Hamburg"]},{"content":"User moved from Kiel to Hamburg last week",'
        '"tags":["location","move"],"keywords":["Kiel","Hamburg","last week"]}],"forgets":["%s"]}'
        % kiel,
        "I moved from Kiel to Hamburg last week.",
        [kiel],
    )
    assert [result.what for result in results] == ["dropped", "replaced", "stored"]
    assert store.get(kiel)["content"] == "User lives in Hamburg"
    assert len(store) == 3


def test_the_last_example_is_in_the_language_of_the_message(root):
    from upyclaw.memory import prompt

    store = MemoryStore(root, clock=lambda: 1796026877)
    for said, fact in (
        ("I don't like olives.", "User loves jazz"),
        ("Ich mag keinen Fisch.", "Nutzer mag Jazz"),
        ("我女儿今年五岁，她喜欢画画。", "用户喜欢爵士乐"),
    ):
        items = [("mem-1796026877-0001", '"User lives in Kiel"')]
        parts, user = prompt.question(store, said, items, b"- home\n")
        shown = parts[1][1]
        assert fact in shown and shown.index("{") > 0
        # The form that is read, and what weak models look at last.
        answer = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
        assert len(answer["memories"]) == 2 and answer["memories"][1]["content"] == fact
        assert user.index("Stored mem-1796026877-0001") < user.index("<<<\n" + said + "\n>>>")
        # Sent for every fact.
        assert len((parts[0][1] + shown).encode()) < 1260
    assert "Stored" not in prompt.question(store, "I like tea", [], b"")[1]
