"""Writes small GGUF files, sound or broken at will, for tests of what reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

_CODES = {
    "u8": (0, "B"),
    "u32": (4, "I"),
    "i32": (5, "i"),
    "f32": (6, "f"),
    "bool": (7, "?"),
    "u64": (10, "Q"),
    "i64": (11, "q"),
}
STRING, ARRAY = 8, 9

# a model of two layers, as small as can be
SMALL_METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Small",
    "general.file_type": 1,
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}


def string(text: str | bytes) -> bytes:
    """A length and the bytes."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """Type number and value: int -> u32, float -> f32, bool, str, list (of one kind)."""
    kind, data = _typed(item)
    return struct.pack("<I", kind) + data


def _typed(item: Any) -> tuple[int, bytes]:
    if isinstance(item, str):
        return STRING, string(item)
    if isinstance(item, list):
        kinds = [_typed(part) for part in item]
        kind = kinds[0][0] if kinds else 4
        return ARRAY, struct.pack("<IQ", kind, len(item)) + b"".join(data for _, data in kinds)
    name = "bool" if isinstance(item, bool) else "u32" if isinstance(item, int) and item >= 0 else "i32"
    if isinstance(item, float):
        name = "f32"
    number, code = _CODES[name]
    return number, struct.pack(f"<{code}", item)


def gguf(
    metadata: dict[str, Any] | None = None,
    tensors: Sequence[tuple[str, Sequence[int]]] = (("token_embd.weight", (64, 8)),),
    *,
    version: int = 3,
    num_keys: int | None = None,
    num_tensors: int | None = None,
) -> bytes:
    """A GGUF of f16 tensors. `num_keys` and `num_tensors` lie about the counts when given."""
    metadata = SMALL_METADATA if metadata is None else metadata
    head = b"GGUF" + struct.pack("<I", version)
    head += struct.pack(
        "<QQ", len(tensors) if num_tensors is None else num_tensors, len(metadata) if num_keys is None else num_keys
    )
    for key, item in metadata.items():
        head += string(key) + value(item)
    offset = 0
    for name, dimensions in tensors:
        head += string(name) + struct.pack("<I", len(dimensions))
        head += b"".join(struct.pack("<Q", dimension) for dimension in dimensions)
        head += struct.pack("<IQ", 1, offset)
        num_values = 1
        for dimension in dimensions:
            num_values *= dimension
        offset += -(-2 * num_values // 32) * 32
    return head + b"\0" * (-len(head) % 32) + b"\1" * offset
