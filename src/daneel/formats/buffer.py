"""The text a parser has been given and not yet read, with its place in the generation."""

from __future__ import annotations


class Buffer:
    """`text` from `pos` on is unread. `base` is the offset of `text` in the generation; `final`: no more will come."""

    __slots__ = ("base", "final", "pos", "text", "truncated")

    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.base = 0
        self.final = False
        self.truncated = False

    @property
    def offset(self) -> int:
        """Where the unread text begins in the generation."""
        return self.base + self.pos

    def add(self, text: str) -> None:
        self.base += self.pos
        self.text = self.text[self.pos :] + text if self.pos < len(self.text) else text
        self.pos = 0

    def take(self, end: int) -> str:
        """Read up to `end`."""
        text = self.text[self.pos : end]
        self.pos = end
        return text

    def unread(self, text: str) -> None:
        """Put back what was just read; for free if all of it is still in the buffer."""
        if len(text) <= self.pos:
            self.pos -= len(text)
        else:
            self.base = self.offset - len(text)
            self.text, self.pos = text + self.text[self.pos :], 0
