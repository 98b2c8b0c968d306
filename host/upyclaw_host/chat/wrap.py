"""Line breaks between words for text that comes piece by piece. Prints nothing."""

from __future__ import annotations

from rich.cells import cell_len


class Wrapper:
    """Breaks lines of `width` columns between words; wide characters (Chinese) anywhere.

    `column`: where the first character goes. A word longer than a line is left to the terminal.
    """

    def __init__(self, width: int, column: int = 0) -> None:
        self._width = max(1, width)
        self._column = column
        self._word = ""  # begun, not given out yet: its end may not fit on the line

    def feed(self, piece: str) -> str:
        """What can be shown of the text so far."""
        out = []
        for char in piece:
            if char == "\n":
                out += [self.finish(), char]
                self._column = 0
            elif char.isspace() or cell_len(char) > 1:
                out.append(self.finish())
                out.append(self._fit(char))
            else:
                self._word += char
        return "".join(out)

    def finish(self) -> str:
        """The rest: the word that was begun."""
        word, self._word = self._word, ""
        return self._fit(word) if word else ""

    def _fit(self, text: str) -> str:
        """`text` on this line, or on a new one if it does not fit."""
        size = cell_len(text)
        if self._column + size <= self._width:
            self._column += size
            return text
        if text.isspace():
            # The line is full: its end stands for the blank.
            self._column = 0
            return "\n"
        fresh = "\n" if self._column else ""
        self._column = size % self._width if size > self._width else size
        return fresh + text
