"""Text from files, boards and models as it may be shown on a terminal."""

from __future__ import annotations

# Control characters as pictures, so that no file can move the cursor or change colours.
_PICTURES = (
    {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
    | {0x7F: 0x2421}
    | dict.fromkeys(range(128, 160), 65533)
)


def plain(text: str) -> str:
    """Text that can't hold terminal codes; tabs become blanks."""
    return text.replace("\r\n", "\n").translate(_PICTURES).expandtabs(4)
