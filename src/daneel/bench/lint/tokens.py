"""How many tokens a text is: counted by the served model's own tokenizer, or estimated from its characters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

CHARS_PER_TOKEN = 4.0
_PIECE = re.compile(r"[A-Za-z][a-z]*|\d+|[^A-Za-z\d]")


class TokenCounter:
    """Counts tokens. `tokenize` gives the pieces of a text as a tokenizer cuts it; without it, characters are counted.

    `how` says in words which of the two it is. What was asked is remembered.
    """

    def __init__(self, tokenize: Callable[[str], list[str]] | None = None, *, model: str = "") -> None:
        self._tokenize = tokenize
        self._known: dict[str, list[str]] = {}
        self.exact = tokenize is not None
        self.how = f"tokens of {model or 'the served model'}" if self.exact else "estimated, at 4 characters a token"

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text; by characters: runs of letters, runs of figures, and signs, as most tokenizers cut names."""
        if text not in self._known:
            self._known[text] = self._tokenize(text) if self._tokenize is not None else _PIECE.findall(text)
        return self._known[text]

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.pieces(text)) if self.exact else round(len(text) / CHARS_PER_TOKEN)

    def declaration(self, declaration: dict[str, Any]) -> int:
        """Tokens of a tool's declaration as templates write it: as JSON."""
        return self.count(json.dumps(declaration, ensure_ascii=False))


def num_common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many elements, or characters, two sequences have in common at their beginning."""
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count
