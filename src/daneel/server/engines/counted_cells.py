"""KV cells of an engine that has none: only how many each sequence holds, so that `kv_cache.py` can keep its books."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


class CountedCells:
    """See `kv_cache.CellMemory`. A saved state is as many zeros as there are bytes."""

    def __init__(self) -> None:
        self._num_tokens: dict[int, int] = {}

    def grow(self, seq: int, num_tokens: int) -> None:
        """So many tokens were evaluated behind those of a sequence."""
        self._num_tokens[seq] = self._num_tokens.get(seq, 0) + num_tokens

    def share(self, source: int, target: int, start: int, end: int) -> None:
        self._num_tokens[target] = max(end, self._num_tokens.get(target, 0))

    def drop(self, seq: int, start: int, end: int | None = None) -> bool:
        # a range in the middle is exchanged for another's cells at once, which changes no number
        if end is None:
            self._num_tokens[seq] = start
        return True

    def save(self, seq: int) -> bytes | None:
        return bytes(BYTES_PER_TOKEN * self._num_tokens.get(seq, 0))

    def restore(self, seq: int, state: bytes) -> bool:
        self._num_tokens[seq] = len(state) // BYTES_PER_TOKEN
        return len(state) % BYTES_PER_TOKEN == 0 and not any(state)
