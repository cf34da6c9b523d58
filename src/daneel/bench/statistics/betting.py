"""Is the mean of some numbers in [-1, 1] above or below a given value? Answered by betting, valid however often one looks.

A gambler bets that the mean of D is above m, and each D is a factor on its capital. With X = (D + 1)/2 and x = (m + 1)/2,
both in [0, 1], and a bet c in [0, 1) that is fixed before D is seen,

    factor = 1 - c + c X/x,            expected value <= 1 where the mean of X, given all before, is at most x.

Starting from 1, such capital reaches 1/a with probability at most a, at whatever moment one looks (Ville's inequality): it is
an *e-process*, and its value is an *e-value*. A second gambler bets, in the same way on 1 - X, that the mean is below. Nothing
is assumed of D but its range and its mean: not a normal distribution, not symmetry, not independence of what came before.

**The bets.** Capital is spread over several bets and summed (a mixture of e-processes is one). A third of it is spread over a
grid of constant bets, of which one always suits the effect there is; they win early when the effect is large. The rest makes
one bet that is aimed at a *horizon*, the largest number of pairs that will be drawn: before each pair it is

    c = sqrt(2 log(target / capital) / (v * pairs left)),        v: mean square of (X - x)/x so far

which is what it takes to reach the target by then. It makes up for most of what constant bets lose against a test whose number
of pairs is fixed in advance.

Sources: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024); V. Voracek,
F. Orabona, "STaR-Bets: Sequential Target-Recalculating Bets for Tighter Confidence Intervals" (2025), for the aimed bet.
"""

from __future__ import annotations

import math
from collections import Counter

GRID = tuple(0.05 * 19 ** (step / 7) for step in range(8))
"""Constant bets from 0.05 to 0.95, each 1.52 times the one before."""

AIMED_SHARE = 2 / 3
MAX_AIMED_BET = 0.99
MAX_LOG = 600.0
"""Capital is reported as at most e**600, so that it stays a number."""

_PRIOR_COUNT, _PRIOR_MEAN_SQUARE = 4.0, 0.25
"""What v is taken for before there is anything to go by, and as how many numbers that counts."""
_PRECISION = 2e-5
"""Of a bound of a confidence sequence, in D; it errs to the wide side."""


class Gambler:
    """Bets that the mean of X in [0, 1] is above x, for every x at once; its aimed bet has one of them in mind.

    `aimed_at`: that x, in (0, 1). `log_target`: the logarithm of the capital to be reached by the `horizon`-th number.
    """

    def __init__(self, *, aimed_at: float, log_target: float, horizon: int) -> None:
        self.horizon = horizon
        self._aimed_at = aimed_at
        self._log_target = log_target
        self._grid = [0.0] * len(GRID)
        """Logarithm of what each constant bet has made, against x = `aimed_at`."""
        self._aimed = 0.0
        self._square_sum, self._count = _PRIOR_COUNT * _PRIOR_MEAN_SQUARE, 0
        self._values: Counter[float] = Counter()
        self._aimed_bets: Counter[tuple[float, float]] = Counter()
        """(bet, X) for each number on which the aimed bet was above 0."""

    def add(self, *numbers: float) -> None:
        """Bet on one more number, or on some at once with the same bets, and settle."""
        aimed_bet = self._next_aimed_bet()
        for x in numbers:
            gain = (x - self._aimed_at) / self._aimed_at
            if aimed_bet > 0:
                self._aimed_bets[aimed_bet, x] += 1
                self._aimed += math.log1p(aimed_bet * gain)
            self._grid = [made + math.log1p(bet * gain) for made, bet in zip(self._grid, GRID, strict=True)]
            self._square_sum += gain * gain
            self._values[x] += 1
        self._count += len(numbers)

    def log_capital(self) -> float:
        """The logarithm of its capital against the x it is aimed at."""
        return _log_sum(self._aimed + math.log(AIMED_SHARE), _grid_capital(self._grid))

    def log_capital_against(self, x: float) -> float:
        """The logarithm of its capital against any x in (0, 1), with the same bets; falls as x grows."""
        if x == self._aimed_at:
            return self.log_capital()
        times = [(value / x - 1, count) for value, count in self._values.items()]
        grid = [math.fsum(count * math.log1p(bet * gain) for gain, count in times) for bet in GRID]
        aimed = math.fsum(count * math.log1p(bet * (value / x - 1)) for (bet, value), count in self._aimed_bets.items())
        return _log_sum(aimed + math.log(AIMED_SHARE), _grid_capital(grid))

    def _next_aimed_bet(self) -> float:
        missing = self._log_missing()
        if self._count >= self.horizon or missing <= 0:
            return 0.0
        mean_square = self._square_sum / (_PRIOR_COUNT + self._count)
        return min(MAX_AIMED_BET, math.sqrt(2 * missing / (mean_square * (self.horizon - self._count))))

    def _log_missing(self) -> float:
        """How far the aimed bet's own capital is from what makes the target together with the grid's. <= 0: it is reached."""
        grid = _grid_capital(self._grid)
        if grid >= self._log_target:
            return 0.0
        wanted = self._log_target + math.log1p(-math.exp(grid - self._log_target))
        return wanted - math.log(AIMED_SHARE) - self._aimed


def _grid_capital(logs: list[float]) -> float:
    """The logarithm of what the grid's share of the capital has become."""
    largest = max(logs)
    total = sum(math.exp(made - largest) for made in logs)
    return largest + math.log(total * (1 - AIMED_SHARE) / len(logs))


def _log_sum(one: float, other: float) -> float:
    """log(e**one + e**other)."""
    largest = max(one, other)
    return largest + math.log1p(math.exp(min(one, other) - largest))


class MeanTest:
    """The mean of differences in [-1, 1]: evidence against `null` in either direction, and a confidence sequence.

    `alpha`: the probability of ever being wrong, over both directions and all moments, is at most this. `horizon`: how many
    differences there will be at most; see `aim`.
    """

    def __init__(self, *, horizon: int, alpha: float = 0.05, null: float = 0.0) -> None:
        if not 0 < alpha < 1 or not -1 < null < 1 or horizon < 1:
            raise ValueError(f"no test with alpha {alpha}, null {null} and horizon {horizon}")
        self.alpha, self.null = alpha, null
        self._log_target = math.log(2 / alpha)
        at = (null + 1) / 2
        self._above = Gambler(aimed_at=at, log_target=self._log_target, horizon=horizon)
        self._below = Gambler(aimed_at=1 - at, log_target=self._log_target, horizon=horizon)
        self._sum, self._square_sum, self.count = 0.0, 0.0, 0

    def aim(self, horizon: int) -> None:
        """From now on, bet for this many differences in all. It may be called at any time, whatever was seen."""
        self._above.horizon = self._below.horizon = horizon

    def add(self, *block: float) -> None:
        """One more difference, or a block of them. Raises `ValueError` when one is not in [-1, 1].

        A block is one difference of each of several goals, in a design that tries all of them equally often; what is tested is
        the mean over the goals. With the same bets on all of a block, capital that is looked at between blocks is worth no
        more than 1 where that mean is `null`: the expected factor of a block is the product of the goals' own, which is
        largest where they are equal, and then 1.
        """
        for difference in block:
            if not -1 <= difference <= 1:
                raise ValueError(f"a difference must be in [-1, 1], not {difference}")
        numbers = [(difference + 1) / 2 for difference in block]
        self._above.add(*numbers)
        self._below.add(*(1 - x for x in numbers))
        self._sum += math.fsum(block)
        self._square_sum += math.fsum(difference * difference for difference in block)
        self.count += len(block)

    @property
    def mean(self) -> float | None:
        """The mean so far; `None` of nothing."""
        return self._sum / self.count if self.count else None

    @property
    def sd(self) -> float | None:
        """The standard deviation so far, with n - 1; `None` of fewer than two."""
        if self.count < 2:
            return None
        return math.sqrt(max(0.0, self._square_sum - self._sum**2 / self.count) / (self.count - 1))

    @property
    def e_value(self) -> float:
        """Evidence against "the mean is `null`": half the capital of the gambler who has more.

        Half, because the gamblers are two. Where the mean is `null`, it ever reaches 1/alpha with probability at most alpha.
        """
        return math.exp(min(max(self._above.log_capital(), self._below.log_capital()) - math.log(2), MAX_LOG))

    @property
    def direction(self) -> int:
        """1 when the evidence is for a mean above `null`, -1 when it is for one below."""
        return 1 if self._above.log_capital() >= self._below.log_capital() else -1

    def excludes_from_below(self, mean: float) -> bool:
        """Whether all m <= `mean`, in (-1, 1), lie below the confidence sequence."""
        return self._above.log_capital_against((mean + 1) / 2) >= self._log_target

    def excludes_from_above(self, mean: float) -> bool:
        """Whether all m >= `mean`, in (-1, 1), lie above the confidence sequence."""
        return self._below.log_capital_against((1 - mean) / 2) >= self._log_target

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence sequence at this moment: all m that neither gambler has 2/alpha against.

        With probability of at least 1 - alpha, the mean is in it at every moment.
        """
        return 2 * _bound(self._above, self._log_target) - 1, 1 - 2 * _bound(self._below, self._log_target)


def _bound(gambler: Gambler, log_target: float) -> float:
    """The largest x in [0, 1] that `gambler` has the target against."""
    low, high = 0.0, 1.0
    while high - low > _PRECISION / 2:
        middle = (low + high) / 2
        low, high = (middle, high) if gambler.log_capital_against(middle) >= log_target else (low, middle)
    return low
