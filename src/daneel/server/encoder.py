"""Text to token ids, remembering the pieces: a conversation comes back with one more turn, and the rest need not be read again.

The text is cut behind the markers that end turns. Such a marker is one special token, which no merge crosses, so the pieces
give together what the whole would; a marker for which that is not so in this model is not cut at.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

MAX_CHARS = 8_000_000
"""Characters of text kept with their ids."""

_PROBES = ("\nnext", " next", "next")

Tokenize = Callable[[str], Awaitable[list[int]]]


class Encoder:
    """Made by `start`, for one model."""

    def __init__(self, tokenize: Tokenize, markers: Sequence[str]) -> None:
        self._tokenize = tokenize
        either = "|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True))
        self._marker = re.compile(either) if either else None
        self._kept: OrderedDict[str, list[int]] = OrderedDict()
        self._num_chars = 0

    @classmethod
    async def start(cls, tokenize: Tokenize, markers: Sequence[str]) -> Encoder:
        """`markers`: texts of special tokens that end turns. Those behind which the text cannot be cut are left out."""
        return cls(tokenize, [marker for marker in markers if await _cuts(tokenize, marker)])

    async def encode(self, text: str) -> list[int]:
        """The ids of the whole text."""
        ids: list[int] = []
        for piece in self._pieces(text):
            known = self._kept.get(piece)
            if known is None:
                known = await self._tokenize(piece)
                self._keep(piece, known)
            else:
                self._kept.move_to_end(piece)
            ids += known
        return ids

    def _pieces(self, text: str) -> list[str]:
        if self._marker is None:
            return [text] if text else []
        ends = [match.end() for match in self._marker.finditer(text)]
        bounds = [0, *ends, *([len(text)] if not ends or ends[-1] < len(text) else [])]
        return [text[start:end] for start, end in pairwise(bounds) if end > start]

    def _keep(self, piece: str, ids: list[int]) -> None:
        self._kept[piece] = ids
        self._num_chars += len(piece)
        while self._num_chars > MAX_CHARS and len(self._kept) > 1:
            old, _ = self._kept.popitem(last=False)
            self._num_chars -= len(old)


async def _cuts(tokenize: Tokenize, marker: str) -> bool:
    """Whether the ids of a text with the marker are those of the two parts it is cut into."""
    before = await tokenize(f"last{marker}")
    for probe in _PROBES:
        if await tokenize(f"last{marker}{probe}") != [*before, *await tokenize(probe)]:
            return False
    return True
