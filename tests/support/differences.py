"""Differences of pairs with a known mean and standard deviation, as a goal's two trials give them."""

from __future__ import annotations

import random
from collections.abc import Callable

Draw = Callable[[], float]


def three_points(mean: float, sd: float, step: float, draw: random.Random) -> Draw:
    """-step, 0 or step; possible where mean**2 + sd**2 <= step**2."""
    square = (mean**2 + sd**2) / step**2
    up, down = (square + mean / step) / 2, (square - mean / step) / 2
    assert down >= 0
    assert up + down <= 1
    return lambda: step * draw.choices((1, -1, 0), (up, down, 1 - up - down))[0]


def beta(mean: float, sd: float, draw: random.Random) -> Draw:
    """Anything in [-1, 1]."""
    m = (mean + 1) / 2
    size = m * (1 - m) / (sd / 2) ** 2 - 1
    return lambda: 2 * draw.betavariate(m * size, (1 - m) * size) - 1


def rare_loss(mean: float, gain: float, draw: random.Random) -> Draw:
    """A small gain nearly always, and now and then a whole loss: as of a version that is quicker, but sometimes fails."""
    loss = (gain - mean) / (1 + gain)
    return lambda: -1.0 if draw.random() < loss else gain
