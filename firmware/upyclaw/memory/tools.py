"""The memory tools that the model may call: names, words for the model, schemas.

Owns: what is sent with every request (SPEC-context-and-tools §2). Loaded once, to make the list.
"""

from .tool import MemoryTool


def memory_tools(store, profile=None):
    """The tools as a list for the registry."""
    out = [
        MemoryTool(
            store,
            "memory_store",
            True,
            "Keep a lasting fact about the user. content: one short sentence; tags: one to three"
            " short labels; keywords: words of the fact; both separated by commas.",
            '"content":{"type":"string"},"tags":{"type":"string"},"keywords":{"type":"string"}',
            '"content"',
        ),
        MemoryTool(
            store,
            "memory_recall",
            False,
            "Read what is remembered about the user: by labels copied exactly from the list, or by"
            " words to look for (query).",
            '"summary_labels":{"type":"array","items":{"type":"string"}},'
            '"query":{"type":"string"},"limit":{"type":"integer"}',
        ),
        MemoryTool(
            store,
            "memory_list",
            False,
            "List what is remembered, the most used first; offset skips items already seen.",
            '"offset":{"type":"integer"}',
        ),
        MemoryTool(
            store,
            "memory_update",
            True,
            "Correct an item: its id, and the fields that change.",
            '"memory_id":{"type":"string"},"content":{"type":"string"},"tags":{"type":"string"},'
            '"keywords":{"type":"string"}',
            '"memory_id"',
        ),
        MemoryTool(
            store,
            "memory_forget",
            True,
            "Forget one item for good, by its id.",
            '"memory_id":{"type":"string"}',
            '"memory_id"',
        ),
    ]
    if profile is not None:
        out.append(
            MemoryTool(
                profile.root,
                "profile_update",
                True,
                "Change a profile file, only when the user asks for it: soul (how you are and"
                " speak), identity (your name and role), user (who the user is). text replaces"
                " the one place where old stands; without old it is added as a line.",
                '"file":{"type":"string","enum":["user","soul","identity"]},'
                '"text":{"type":"string"},"old":{"type":"string"}',
                '"file","text"',
            )
        )
    return out
