"""llama.cpp's KV memory, as `kv_cache.py` uses it: sequences share cells, and can be saved and restored.

With one unified pool of cells (`kv_unified`) copying a range of a sequence only tags the cells that are there.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp.llama_cpp as native

MAX_STATE_BYTES = 2**31


class LlamaCells:
    """See `kv_cache.CellMemory`. `rolls_back` false: the state of a recurrent model, which is copied whole or not at all."""

    def __init__(self, context: Any, *, rolls_back: bool) -> None:
        self._context = context
        self._memory = native.llama_get_memory(context)
        self._rolls_back = rolls_back

    def share(self, source: int, target: int, start: int, end: int) -> None:
        if self._rolls_back:
            native.llama_memory_seq_cp(self._memory, source, target, start, end)
        else:
            native.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def drop(self, seq: int, start: int, end: int | None = None) -> bool:
        whole = start == 0 and end is None
        if not whole and not self._rolls_back:
            return False
        first, last = (-1, -1) if whole else (start, -1 if end is None else end)
        return bool(native.llama_memory_seq_rm(self._memory, seq, first, last))

    def save(self, seq: int) -> bytes | None:
        size = int(native.llama_state_seq_get_size(self._context, seq))
        if not 0 < size <= MAX_STATE_BYTES:
            return None
        buffer = (ctypes.c_uint8 * size)()
        written = int(native.llama_state_seq_get_data(self._context, buffer, size, seq))
        return bytes(buffer) if written == size else None

    def restore(self, seq: int, state: bytes) -> bool:
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        return int(native.llama_state_seq_set_data(self._context, buffer, len(state), seq)) > 0

    def clear(self) -> None:
        """Nothing is held any more, by any sequence."""
        native.llama_memory_clear(self._memory, True)
