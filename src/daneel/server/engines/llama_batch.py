"""One native batch: tokens of several sequences, evaluated together, with logits for those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llama_cpp.llama_cpp as native
import numpy as np
from numpy.typing import NDArray


class LlamaBatch:
    """Filled with `add`, evaluated by `decode`. Holds native memory until `close`."""

    def __init__(self, context: Any, *, max_tokens: int, num_vocab: int) -> None:
        self._context = context
        self._num_vocab = num_vocab
        self._batch = native.llama_batch_init(max_tokens, 0, 1)

    def clear(self) -> None:
        self._batch.n_tokens = 0

    def add(self, seq: int, token_ids: Sequence[int], position: int, *, want_logits: bool) -> int:
        """Tokens of a sequence from `position` on; with `want_logits`, those behind the last. Returns the last one's row."""
        batch = self._batch
        row = int(batch.n_tokens)
        for offset, token_id in enumerate(token_ids):
            batch.token[row + offset] = token_id
            batch.pos[row + offset] = position + offset
            batch.n_seq_id[row + offset] = 1
            batch.seq_id[row + offset][0] = seq
            batch.logits[row + offset] = False
        last = row + len(token_ids) - 1
        batch.logits[last] = want_logits
        batch.n_tokens = last + 1
        return last

    def decode(self) -> int:
        """llama.cpp's code: 0 when all tokens were evaluated."""
        return int(native.llama_decode(self._context, self._batch))

    def logits(self, row: int) -> NDArray[np.float32]:
        """A view of the logits of a row, valid until the next `decode`; what is written there is what is sampled from."""
        pointer = native.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(pointer, shape=(self._num_vocab,))

    def close(self) -> None:
        native.llama_batch_free(self._batch)
