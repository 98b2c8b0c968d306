"""One memory tool as the registry sees it. What a call does is in toolwork.py, loaded for it.

Owns: who may write: nothing is changed in a turn that is not the user's alone (B31). The agent's
`context` has `untrusted` (this turn has read text that is not the user's), `facts` (a list that
takes what was stored, so that it is not extracted again) and `labels` (a list of what changed).
"""

from ..compat import collect
from . import drop, drop_all


class MemoryTool:
    """`target` is the store, or for profile_update the folder of the profile files."""

    trusted = True

    def __init__(self, target, name, writes):
        self.name = name
        self._target = target
        self._writes = writes

    @property
    def description(self):
        """Words for the model. Read from flash, as the schema is: see `sleep`."""
        from .tools import description

        return description(self.name)

    @property
    def schema(self):
        """JSON schema of the arguments, as bytes."""
        from .tools import schema

        return schema(self.name)

    def sleep(self):
        """Give back the heap of the words."""
        drop("tools")

    async def run(self, args, context):
        """Carry out the call. The answer is JSON text, failures included."""
        if self._writes and getattr(context, "untrusted", False):
            from .toolwork import REFUSED

            return REFUSED
        try:
            # What is loaded now must not come to lie between garbage.
            collect()
            from .toolwork import work

            return work(self.name, self._target, args, context)
        except MemoryError:
            return '{"ok":false,"error":"the board has no room for this beside the turn"}'
        finally:
            drop_all()
            collect()
