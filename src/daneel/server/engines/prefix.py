"""Comparing token sequences."""

from __future__ import annotations

from collections.abc import Sequence

MIN_SHARED_TOKENS = 16
"""A prefix that another sequence is about to evaluate is waited for if it is at least so much longer than what is known."""

_BLOCK = 256


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with. Blocks are compared at once, so long equal prefixes cost little."""
    size = min(len(first), len(second))
    at = 0
    while at < size and first[at : at + _BLOCK] == second[at : at + _BLOCK]:
        at += _BLOCK
    while at < size and first[at] == second[at]:
        at += 1
    return min(at, size)
