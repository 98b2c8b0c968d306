"""One memory tool as the registry sees it. What a call does is in toolask.py, the store and
tooldone.py or toolshow.py, loaded for it.

Owns: who may write: nothing is changed in a turn that is not the user's alone (B31). The agent's
`context` has `untrusted` (this turn has read text that is not the user's), `facts` (a list that
takes what was stored, so that it is not extracted again) and `labels` (a list of what changed).
"""

from ..compat import collect
from ..storage.files import StorageError
from . import drop_all, empty


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
        empty("tools")

    async def run(self, args, context):
        """Carry out the call. The answer is JSON text (str or memoryview), failures included.

        Three steps, and the code of each is gone before that of the next comes: what is asked
        for, the store's part, the answer. Beside a turn a chip has no room for two of them.
        MemoryError if it has none for one; the call can be made again.
        """
        done = False
        try:
            if self._writes and getattr(context, "untrusted", False):
                from .tooldone import REFUSED

                return REFUSED
            # What is loaded now must not come to lie between garbage.
            collect()
            from .toolask import prepare

            method, values, detail = prepare(self.name, self._target, args)
            del prepare
            drop_all(True)
            result = getattr(self._target, method)(*values) if method else None
            drop_all(True)
            if self._writes:
                done = True
                from .tooldone import answer

                return answer(self.name, result, detail, context)
            from .toolshow import show

            return show(self.name, self._target, result, detail)
        except (StorageError, ValueError) as error:
            drop_all(True)
            from .tooldone import failed

            return failed(self.name, error)
        except MemoryError:
            if done:
                return '{"ok":true,"message":"done; no room to say more"}'
            raise
        finally:
            drop_all(True)
