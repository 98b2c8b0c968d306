"""Finds facts by questions: `memory_recall.py DATA.json EMPTY_FOLDER`, prints one JSON line.

Runs in MicroPython and in CPython alike; `order` (the ids found for each question) must be equal.
By words: the store's search. By labels: recall of the labels that occur in the question, which is
the best a model can do that sees the label list only.
"""

import json
import sys

from upyclaw.memory.recall import auto, search
from upyclaw.memory.store import MemoryStore
from upyclaw.memory.text import fold


def main(data, root):
    with open(data, "rb") as f:
        wanted = json.loads(f.read())
    store = MemoryStore(root + "/memory", clock=lambda: 1796026877)
    for fact in wanted["facts"]:
        how, _, _ = store.store(
            fact["content"], fact["tags"], fact["keywords"], "user", fact["id"]
        )
        assert how == "new", fact["id"]
    labels = [label for _, label, _ in store.labels()]
    out = {"facts": len(store), "questions": len(wanted["questions"]), "order": [], "missed": []}
    hits = {"words_8": 0, "words_1": 0, "labels_8": 0, "auto_3": 0}
    for question in wanted["questions"]:
        text = question["question"]
        id = question["id"]
        found = [store.id_of(slot) for slot, _ in search(store, text, 8)]
        out["order"].append(found)
        hits["words_8"] += id in found
        hits["words_1"] += found[:1] == [id]
        hits["auto_3"] += id in [store.id_of(slot) for slot in auto(store, text)]
        if id not in found:
            out["missed"].append(text)
        folded = fold(text)
        said = [label for label in labels if fold(label) in folded]
        if said:
            # Straight from the ranking: a count for each hit would change the next.
            order = store.slots(lambda slot, said=said: has_one(store, slot, said))
            hits["labels_8"] += id in [store.id_of(slot) for slot in order[:8]]
    out["hits"] = hits
    print(json.dumps(out))


def has_one(store, slot, labels):
    tags = store.text_of(slot, b"tags").split(",")
    return any(label[:8] == tag[:8] for label in labels for tag in tags)


main(sys.argv[1], sys.argv[2])
