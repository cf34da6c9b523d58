"""The sign-flip permutation test, for a number of pairs that was fixed before the first was drawn.

Were the two arms alike, each difference could as well have had the other sign. p is the share of all ways to set the signs that
give a mean at least as far from 0 as the one seen. With up to 13 pairs all ways are tried; with more, 9,999 drawn ones and the
one seen, so that p is still valid: (1 + at least as far) / (1 + drawn). The test is exact where the differences are symmetric
about their mean, and nearly so otherwise once there are some dozens: Student's t of the flipped differences only grows with
their mean, and is what makes it so (A. Janssen, "Studentized permutation tests for non-i.i.d. hypotheses", 1997).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

MAX_EXACT = 13
NUM_DRAWN = 9_999
_CHUNK = 8
_TOLERANCE = 1e-9
"""Means that differ by no more are equal: sums of the same numbers in another order."""
_BISECTIONS = 20


class SignFlips:
    """All, or many, ways to set the signs of some differences. Raises `ValueError` when there are none.

    `seed`: of the drawn ones; the same seed gives the same p.
    """

    def __init__(self, differences: Sequence[float], *, seed: int = 0) -> None:
        if not differences:
            raise ValueError("no differences, no test")
        self._count = len(differences)
        self._sum = sum(differences)
        masks = _masks(self._count, seed)
        tables = [_partial_sums(differences[start : start + _CHUNK]) for start in range(0, self._count, _CHUNK)]
        self._flips = [(2 * _kept(tables, mask) - self._sum, 2 * mask.bit_count() - self._count) for mask in masks]
        """For each way: the sum of the differences, and the sum of the signs."""

    def p_value(self, null: float = 0.0) -> float:
        """p against "the mean is `null`", two-sided."""
        seen = abs(self._sum - null * self._count) - _TOLERANCE
        return sum(abs(total - null * signs) >= seen for total, signs in self._flips) / len(self._flips)

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """The means in [-1, 1] that the test does not reject at `alpha`."""
        mean = self._sum / self._count
        return self._last_kept(mean, -1.0, alpha), self._last_kept(mean, 1.0, alpha)

    def _last_kept(self, kept: float, end: float, alpha: float) -> float:
        if self.p_value(end) > alpha:
            return end
        rejected = end
        for _ in range(_BISECTIONS):
            middle = (kept + rejected) / 2
            kept, rejected = (middle, rejected) if self.p_value(middle) > alpha else (kept, middle)
        return rejected


def _masks(count: int, seed: int) -> list[int]:
    """Each way as a number whose bits say which differences keep their sign; the one seen keeps all."""
    if count <= MAX_EXACT:
        return list(range(1 << count))
    draw = random.Random(f"sign flips {seed}")
    return [(1 << count) - 1, *(draw.getrandbits(count) for _ in range(NUM_DRAWN))]


def _partial_sums(differences: Sequence[float]) -> list[float]:
    """The sum of each subset of a few differences, by its mask."""
    sums = [0.0]
    for difference in differences:
        sums += [total + difference for total in sums]
    return sums


def _kept(tables: list[list[float]], mask: int) -> float:
    total = 0.0
    for table in tables:
        total += table[mask & (len(table) - 1)]
        mask >>= _CHUNK
    return total
