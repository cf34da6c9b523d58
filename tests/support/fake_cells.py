"""KV cells without a model: each remembers which token it was made for, and at which position."""

from __future__ import annotations

import pickle
from collections.abc import Sequence


class FakeCells:
    """See `kv_cache.CellMemory`. `cells[seq][position]` is a cell's number; cells that no sequence holds are free."""

    def __init__(self, capacity: int, *, rolls_back: bool = True) -> None:
        self.capacity = capacity
        self.rolls_back = rolls_back
        self.cells: dict[int, dict[int, int]] = {}
        self.token_of: dict[int, int] = {}
        self._next = 0

    @property
    def num_used(self) -> int:
        return len({cell for held in self.cells.values() for cell in held.values()})

    def evaluate(self, seq: int, tokens: Sequence[int]) -> None:
        """New cells behind those of a sequence. AssertionError when there is no room, or a gap."""
        held = self.cells.setdefault(seq, {})
        assert sorted(held) == list(range(len(held)))
        assert self.num_used + len(tokens) <= self.capacity
        for token in tokens:
            self._next += 1
            held[len(held)] = self._next
            self.token_of[self._next] = token

    def tokens(self, seq: int) -> list[int]:
        held = self.cells.get(seq, {})
        assert sorted(held) == list(range(len(held)))
        return [self.token_of[held[position]] for position in range(len(held))]

    def share(self, source: int, target: int, start: int, end: int) -> None:
        held = self.cells.get(source, {})
        if not self.rolls_back:
            assert (start, end) == (0, len(held))
        for position in range(start, end):
            self.cells.setdefault(target, {})[position] = held[position]

    def drop(self, seq: int, start: int, end: int | None = None) -> bool:
        held = self.cells.get(seq, {})
        if not self.rolls_back and (start, end) != (0, None):
            return False
        self.cells[seq] = {at: cell for at, cell in held.items() if at < start or (end is not None and at >= end)}
        return True

    def save(self, seq: int) -> bytes | None:
        return pickle.dumps(self.tokens(seq))

    def restore(self, seq: int, state: bytes) -> bool:
        assert not self.cells.get(seq)
        tokens = pickle.loads(state)
        if self.num_used + len(tokens) > self.capacity:
            return False
        self.evaluate(seq, tokens)
        return True


class FakeTier:
    """Keeps everything, by tenant and tokens."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self.takes = True

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None:
        self.kept[tenant, tuple(ids)] = state

    def longest(self, tenant: str, ids: Sequence[int], *, whole: bool) -> tuple[int, Sequence[int], str] | None:
        best: tuple[int, Sequence[int], str] | None = None
        for owner, kept in self.kept:
            common = next((at for at, pair in enumerate(zip(kept, ids, strict=False)) if pair[0] != pair[1]), None)
            length = min(len(kept), len(ids)) if common is None else common
            if owner == tenant and (not whole or length == len(kept)) and (best is None or length > best[0]):
                best = length, kept, "fake"
        return best

    def get(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        return self.kept.get((tenant, tuple(ids)))
