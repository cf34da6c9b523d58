"""An engine's native cells with a double beside them that counts every cell and knows its token.

llama.cpp does not say how many cells are in use. The double does what the engine tells the native memory, cell by cell, and
fails where that would use more cells than there are, leave a gap, or restore what was never saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import llama_cpp.llama_cpp as native

from daneel.server.engines.llama_cpp import LlamaCppEngine
from daneel.server.engines.prefix_tree import Node
from tests.support.fake_cells import FakeCells


class ShadowCells:
    """See `kv_cache.CellMemory`. `saved` holds the tokens of every state ever saved; it may outlive the engine."""

    def __init__(self, engine: LlamaCppEngine, saved: dict[bytes, list[int]] | None = None) -> None:
        self.fake = FakeCells(engine.cache.capacity, rolls_back=engine._rolls_back)
        self._engine = engine
        self._native = engine._cells
        self._memory = native.llama_get_memory(engine._context)
        self._saved = {} if saved is None else saved
        self._add = engine._batch.add
        engine._cells = engine.cache._memory = self  # type: ignore[assignment]
        engine._batch.add = self._evaluate  # type: ignore[method-assign]

    def _evaluate(self, seq: int, token_ids: Sequence[int], position: int, *, want_logits: bool) -> int:
        assert position == len(self.fake.tokens(seq))
        self.fake.evaluate(seq, token_ids)
        return self._add(seq, token_ids, position, want_logits=want_logits)

    def share(self, source: int, target: int, start: int, end: int) -> None:
        self.fake.share(source, target, start, end)
        self._native.share(source, target, start, end)

    def drop(self, seq: int, start: int, end: int | None = None) -> bool:
        dropped = self._native.drop(seq, start, end)
        assert dropped == self.fake.drop(seq, start, end)
        return dropped

    def save(self, seq: int) -> bytes | None:
        state = self._native.save(seq)
        if state is not None:
            self._saved[state] = self.fake.tokens(seq)
        return state

    def restore(self, seq: int, state: bytes) -> bool:
        restored = self._native.restore(seq, state)
        if restored:
            assert not self.fake.cells.get(seq)
            self.fake.evaluate(seq, self._saved[state])
        return restored

    def clear(self) -> None:
        self._native.clear()
        self.fake.cells.clear()

    # -- what must always hold ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What is counted is used, every sequence holds its tokens, none is lost, and shared cells are known as shared."""
        cache = self._engine.cache
        assert cache.num_used == self.fake.num_used <= cache.capacity
        assert sorted([*cache._free_seqs, *(holder.seq for holder in cache._holders)]) == list(range(self._num_seqs()))
        for holder in cache._holders:
            assert self.fake.tokens(holder.seq) == holder.ids()
            assert self._last_position(holder.seq) == holder.num_tokens - 1
        for seq in cache._free_seqs:
            assert not self.fake.cells.get(seq)
            assert self._last_position(seq) == -1
        running = {holder for holder in cache._holders if holder.running}
        assert running == {sequence.holder for sequence in self._engine._sequences if sequence.holder is not None}
        self._check_references()

    def check_empty(self) -> None:
        """Nothing is held at all."""
        self.check()
        assert self._engine.cache.num_used == 0
        assert not self._engine.cache._holders
        assert not self._engine._sequences

    def _num_seqs(self) -> int:
        return int(native.llama_n_seq_max(self._engine._context))

    def _last_position(self, seq: int) -> int:
        return int(native.llama_memory_seq_pos_max(self._memory, seq))

    def _check_references(self) -> None:
        """A node is on the way of as many holders as sequences hold each of its cells, and of one at least."""
        passing: Counter[Node] = Counter()
        nodes = {}
        for holder in self._engine.cache._holders:
            node: Node | None = holder.node
            while node is not None and node.run:
                passing[node] += 1
                nodes[node] = holder.seq
                node = node.parent
        references = Counter(cell for held in self.fake.cells.values() for cell in held.values())
        for node, seq in nodes.items():
            for position in range(node.start, node.end):
                assert references[self.fake.cells[seq][position]] == passing[node] > 0
        assert sum(len(node.run) for node in nodes) == self._engine.cache.tree.num_tokens
