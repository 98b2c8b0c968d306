"""The memory tools that the model may call: names, words for the model, schemas.

Owns: what is sent with every request (SPEC-context-and-tools §2). Loaded to make the list, and
while it is sent: the words alone are 3 KB.
"""

# name, does it write, description, properties and the rest of the schema.
_TOOLS = (
    (
        "memory_store",
        True,
        "Keep a lasting fact about the user. content: one short sentence; tags: one to three"
        " short labels; keywords: words of the fact; both separated by commas.",
        b'"content":{"type":"string"},"tags":{"type":"string"},"keywords":{"type":"string"}}'
        b',"required":["content"]',
    ),
    (
        "memory_recall",
        False,
        "Read what is remembered about the user: by labels copied exactly from the list, or by"
        " words to look for (query).",
        b'"summary_labels":{"type":"array","items":{"type":"string"}},'
        b'"query":{"type":"string"},"limit":{"type":"integer"}}',
    ),
    (
        "memory_list",
        False,
        "List what is remembered, the most used first; offset skips items already seen.",
        b'"offset":{"type":"integer"}}',
    ),
    (
        "memory_update",
        True,
        "Correct an item: its id, and the fields that change.",
        b'"memory_id":{"type":"string"},"content":{"type":"string"},"tags":{"type":"string"},'
        b'"keywords":{"type":"string"}},"required":["memory_id"]',
    ),
    (
        "memory_forget",
        True,
        "Forget one item for good, by its id.",
        b'"memory_id":{"type":"string"}},"required":["memory_id"]',
    ),
    (
        "profile_update",
        True,
        "Change a profile file, only when the user asks for it: soul (how you are and"
        " speak), identity (your name and role), user (who the user is). text replaces"
        " the one place where old stands; without old it is added as a line.",
        b'"file":{"type":"string","enum":["user","soul","identity"]},'
        b'"text":{"type":"string"},"old":{"type":"string"}},"required":["file","text"]',
    ),
)


def description(name):
    """What the tool does, in words for the model."""
    return _entry(name)[2]


def schema(name):
    """The JSON schema of its arguments, as bytes."""
    return b'{"type":"object","properties":{' + _entry(name)[3] + b"}"


def _entry(name):
    for entry in _TOOLS:
        if entry[0] == name:
            return entry
    raise KeyError(name)


def memory_tools(store, root=None):
    """The tools as a list for the registry. `root`: folder of the profile files; None: none."""
    from .tool import MemoryTool

    out = []
    for name, writes, _, _ in _TOOLS:
        target = root if name == "profile_update" else store
        if target is not None:
            out.append(MemoryTool(target, name, writes))
    return out
