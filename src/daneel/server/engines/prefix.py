"""Comparing token sequences."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with."""
    length = 0
    for ours, theirs in zip(first, second, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
