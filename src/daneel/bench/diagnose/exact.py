"""Exact tests of counts, so that few trials give no false certainty; where counts are large, normal approximations. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, lgamma, log, sqrt
from statistics import NormalDist

LARGE_VARIANCE = 30.0


def binomial_tail(successes: int, count: int, probability: float) -> float:
    """P(X >= successes) for X ~ Binomial(count, probability)."""
    if successes <= 0:
        return 1.0
    if probability <= 0:
        return 0.0
    if probability >= 1:
        return 1.0
    total = 0.0
    for k in range(successes, count + 1):
        term = exp(_log_comb(count, k) + k * log(probability) + (count - k) * log(1 - probability))
        total += term
        if k > count * probability and term < total * 1e-12:  # beyond the mean terms only fall
            break
    return min(1.0, total)


def hypergeometric(total: int, marked: int, drawn: int) -> dict[int, float]:
    """P(k marked among those drawn), for every possible k."""
    low, high = max(0, drawn + marked - total), min(drawn, marked)
    ways = _log_comb(total, drawn)
    return {k: exp(_log_comb(marked, k) + _log_comb(total - marked, drawn - k) - ways) for k in range(low, high + 1)}


def rarely_together(tables: Iterable[tuple[int, int, int, int]]) -> float:
    """The p-value of "two things come together no more rarely than chance", over strata.

    Each table is (total, with A, with B, with both). The sum of the "both" is compared with its exact distribution when, in
    each stratum, A and B are independent and their margins given (Fisher's exact test, stratified; one-sided). 1 stands for
    any p that is not small; where the sum's variance is above `LARGE_VARIANCE`, it is the normal distribution's.
    """
    tables = list(tables)
    mean, variance = _moments(tables)
    together = sum(both for _, _, _, both in tables)
    if together >= mean - 2 * sqrt(variance):
        return 1.0
    if variance > LARGE_VARIANCE:
        return NormalDist(mean, sqrt(variance)).cdf(together + 0.5)
    distribution = {0: 1.0}
    for total, with_a, with_b, _ in tables:
        stratum = hypergeometric(total, with_a, with_b)
        summed: dict[int, float] = {}
        for so_far, weight in distribution.items():
            for k, p in stratum.items():
                summed[so_far + k] = summed.get(so_far + k, 0.0) + weight * p
        distribution = summed
    return min(1.0, sum(p for k, p in distribution.items() if k <= together))


def _moments(tables: Iterable[tuple[int, int, int, int]]) -> tuple[float, float]:
    """Mean and variance of the sum of the "both", their margins given."""
    mean = variance = 0.0
    for total, with_a, with_b, _ in tables:
        expected = with_a * with_b / total
        mean += expected
        variance += expected * (1 - with_a / total) * (total - with_b) / max(1, total - 1)
    return mean, variance


def more_often_in_first(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The p-value of "successes are no more frequent in the first group"; each is (successes, count). Fisher's exact test."""
    total, successes = first[1] + second[1], first[0] + second[0]
    possible = hypergeometric(total, successes, first[1])
    return min(1.0, sum(p for k, p in possible.items() if k >= first[0]))


def _log_comb(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
