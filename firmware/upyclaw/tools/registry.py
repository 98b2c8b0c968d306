"""The list of tools of this board, and its form in a request.

Owns which tools there are. Must not run them.
"""

from upyclaw.storage.codec import json_escape


class Registry:
    """Tools by name, in the order they were added."""

    def __init__(self, tools=()):
        self._tools = []
        self._size = 0
        for tool in tools:
            self.add(tool)

    def add(self, tool):
        """Add `tool`; one of the same name is replaced."""
        self._size = 0
        for i in range(len(self._tools)):
            if self._tools[i].name == tool.name:
                self._tools[i] = tool
                return
        self._tools.append(tool)

    def get(self, name):
        """The tool of that name, or None."""
        for tool in self._tools:
            if tool.name == name:
                return tool
        return None

    def names(self):
        """Names of all tools."""
        return [tool.name for tool in self._tools]

    def schemas(self):
        """Yield, as bytes, the elements of the request's `tools` array."""
        for tool in self._tools:
            yield (
                b'{"type":"function","function":{"name":"'
                + tool.name.encode()
                + b'","description":"'
                + json_escape(tool.description)
                + b'","parameters":'
                + tool.schema
                + b"}}"
            )
        for tool in self._tools:
            if hasattr(tool, "sleep"):
                tool.sleep()

    def size(self):
        """Bytes the tools take in a request."""
        if not self._size:
            total = 0
            for data in self.schemas():
                total += len(data) + 1
            self._size = total
        return self._size
