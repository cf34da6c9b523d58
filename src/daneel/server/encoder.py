"""Text to token ids, remembering the pieces: a conversation comes back with one more turn, and the rest need not be read again.

What one tenant sent is not remembered for another: how quickly a text is encoded would tell that somebody had sent it.

The text is cut behind the markers that end turns. Such a marker is one special token, which no merge crosses, so the pieces
give together what the whole would; a marker for which that is not so in this model is not cut at.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MAX_CHARS = 8_000_000
"""Characters of text kept with their ids, of all tenants together; whoever has most kept loses first."""

_PROBES = ("\nnext", " next", "next")

Tokenize = Callable[[str], Awaitable[list[int]]]


@dataclass(slots=True)
class _Pieces:
    """One tenant's, the latest used last."""

    ids: OrderedDict[str, list[int]] = field(default_factory=OrderedDict)
    num_chars: int = 0


class Encoder:
    """Made by `start`, for one model."""

    def __init__(self, tokenize: Tokenize, markers: Sequence[str]) -> None:
        self._tokenize = tokenize
        either = "|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True))
        self._marker = re.compile(either) if either else None
        self._kept: dict[str, _Pieces] = {}

    @classmethod
    async def start(cls, tokenize: Tokenize, markers: Sequence[str]) -> Encoder:
        """`markers`: texts of special tokens that end turns. Those behind which the text cannot be cut are left out."""
        return cls(tokenize, [marker for marker in markers if await _cuts(tokenize, marker)])

    async def encode(self, text: str, *, tenant: str = "") -> list[int]:
        """The ids of the whole text."""
        ids: list[int] = []
        for piece in self._pieces(text):
            pieces = self._kept.setdefault(tenant, _Pieces())
            known = pieces.ids.get(piece)
            if known is None:
                known = await self._tokenize(piece)
                self._keep(tenant, piece, known)
            else:
                pieces.ids.move_to_end(piece)
            ids += known
        return ids

    def forget(self, tenant: str) -> None:
        """Drop what was kept of one tenant's texts."""
        self._kept.pop(tenant, None)

    def _pieces(self, text: str) -> list[str]:
        if self._marker is None:
            return [text] if text else []
        ends = [match.end() for match in self._marker.finditer(text)]
        bounds = [0, *ends, *([len(text)] if not ends or ends[-1] < len(text) else [])]
        return [text[start:end] for start, end in pairwise(bounds) if end > start]

    def _keep(self, tenant: str, piece: str, ids: list[int]) -> None:
        pieces = self._kept.setdefault(tenant, _Pieces())
        pieces.num_chars += 0 if piece in pieces.ids else len(piece)
        pieces.ids[piece] = ids
        while sum(each.num_chars for each in self._kept.values()) > MAX_CHARS:
            greediest = max(self._kept.values(), key=lambda each: each.num_chars)
            if len(greediest.ids) == 1:
                break
            old, _ = greediest.ids.popitem(last=False)
            greediest.num_chars -= len(old)


async def _cuts(tokenize: Tokenize, marker: str) -> bool:
    """Whether the ids of a text with the marker are those of the two parts it is cut into."""
    before = await tokenize(f"last{marker}")
    for probe in _PROBES:
        if await tokenize(f"last{marker}{probe}") != [*before, *await tokenize(probe)]:
            return False
    return True
