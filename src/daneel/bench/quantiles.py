"""Quantiles of the beta distribution and of Student's t: all that the numbers need of them, without a library for it."""

from __future__ import annotations

import math

_MAX_BISECTIONS = 1100
"""So many lead down to the smallest number there is."""
_MAX_TERMS = 10_000
_TINY = 1e-300


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for a, b > 0. Raises `ValueError` for others.

    By its continued fraction, evaluated as W. Lentz does (NIST Digital Library of Mathematical Functions, 8.17.22).
    """
    if not (a > 0 and b > 0):
        raise ValueError(f"no beta distribution has the parameters {a} and {b}")
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there it converges fast on the other side
        return 1 - beta_cdf(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            d, c = 1 / _off_zero(1 + term * d), _off_zero(1 + term / c)
            change = c * d
            fraction *= change
        if abs(change - 1) < 1e-14:
            break
    return min(1.0, front * fraction)


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = `probability`. Raises `ValueError` out of range."""
    _check(probability)
    low, high = 0.0, 1.0
    for _ in range(_MAX_BISECTIONS):
        middle = (low + high) / 2
        if high - low <= 1e-15 * middle:
            break
        low, high = (middle, high) if beta_cdf(middle, a, b) < probability else (low, middle)
    return (low + high) / 2


def t_quantile(probability: float, degrees: float) -> float:
    """The t with |T| < t of this probability, for Student's T: 2.228 for 0.95 and 10 degrees. Raises `ValueError`."""
    _check(probability)
    # T² / (degrees + T²) has a beta distribution
    share = beta_quantile(probability, 0.5, degrees / 2)
    return math.sqrt(degrees * share / (1 - share))


def _check(probability: float) -> None:
    if not 0 < probability < 1:
        raise ValueError(f"no quantile for a probability of {probability}")
