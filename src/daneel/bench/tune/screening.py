"""Screening: which candidates look best, by successive halving. It only orders them; nothing is claimed from it.

All candidates and the harness they change are tried on the same goals and seeds, so that one trial of the latter serves all of
them. After 4, 8, 16 and 32 pairs the better half goes on (K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification
and hyperparameter optimization", 2016), and one whose mean is clearly below 0 does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from daneel.bench.effectiveness import value
from daneel.bench.record import Trial

RUNGS = (4, 8, 16, 32)
"""Pairs of each candidate that is still in, after each step."""
ALWAYS_ON = 2
"""So many go on to the last step, for the best of few pairs is often not the best."""

Try = Callable[[Sequence[str], Iterable[int]], list[Trial]]
"""(arms, indexes) to the trials of each arm at each index."""


@dataclass
class Screened:
    """How a candidate did against the harness it changes: D of each pair whose two trials were scored."""

    arm: str
    differences: list[float] = field(default_factory=list)
    num_pairs: int = 0
    """Pairs that were run, those without a D included."""
    is_out: bool = False

    @property
    def mean(self) -> float | None:
        return math.fsum(self.differences) / len(self.differences) if self.differences else None

    @property
    def sd(self) -> float | None:
        mean, num = self.mean, len(self.differences)
        if mean is None or num < 2:
            return None
        return math.sqrt(math.fsum((each - mean) ** 2 for each in self.differences) / (num - 1))

    @property
    def is_worse(self) -> bool:
        """Whether it looks clearly worse: after 8 pairs or more, the mean lies three standard errors below 0."""
        mean, sd, num = self.mean, self.sd, len(self.differences)
        return num >= RUNGS[1] and mean is not None and sd is not None and mean + 3 * sd / math.sqrt(num) < 0


def cost(num_candidates: int, rungs: Sequence[int], known: int) -> int:
    """Trials that a screening takes, `known` of the base's being there already."""
    total, before, left = 0, 0, num_candidates
    for rung in rungs:
        total += left * (rung - before) + max(0, rung - max(before, known))
        before, left = rung, _keeps(left)
    return total


def affordable(num_candidates: int, trials: int, known: int) -> tuple[int, Sequence[int]]:
    """(candidates, steps) that so many trials are enough for: all steps with as many as possible, else fewer steps."""
    for last in range(len(RUNGS), 1, -1):
        count = num_candidates
        while count and cost(count, RUNGS[:last], known) > trials:
            count -= 1
        if count >= min(num_candidates, 2 * last) and count:
            return count, RUNGS[:last]
    count = num_candidates
    while count and cost(count, RUNGS[:2], known) > trials:
        count -= 1
    return count, RUNGS[:2]


def screen(base: str, arms: Sequence[str], known: Sequence[Trial], run: Try, rungs: Sequence[int] = RUNGS) -> list[Screened]:
    """The candidates, the best first; those that went out earlier come later. `known`: trials of `base` that are there."""
    values = {trial.index: value(trial) if trial.scored else None for trial in known}
    screened = {arm: Screened(arm) for arm in arms}
    out: list[Screened] = []
    left = list(arms)
    before = 0
    for step, rung in enumerate(rungs):
        if not left:
            break
        indexes = range(before, rung)
        found = run([base], [index for index in indexes if index not in values]) + run(left, indexes)
        theirs: dict[tuple[str, int], float] = {}
        for trial in found:
            if trial.harness == base:
                values[trial.index] = value(trial) if trial.scored else None
            elif trial.scored:
                theirs[trial.harness, trial.index] = value(trial)
        for arm in left:
            screened[arm].num_pairs += len(indexes)
            for index in indexes:
                ours, other = theirs.get((arm, index)), values.get(index)
                if ours is not None and other is not None:
                    screened[arm].differences.append(ours - other)
        ranked = sorted(left, key=lambda arm: (screened[arm].is_worse, -_rank(screened[arm])))
        keeps = len(ranked) if step == len(rungs) - 1 else _keeps(len(ranked))
        keeps = min(keeps, sum(not screened[arm].is_worse for arm in ranked))
        for arm in reversed(ranked[keeps:]):
            screened[arm].is_out = True
            out.insert(0, screened[arm])
        left, before = ranked[:keeps], rung
    return [*(screened[arm] for arm in left), *out]


def _keeps(num: int) -> int:
    return max(min(num, ALWAYS_ON), (num + 1) // 2)


def _rank(screened: Screened) -> float:
    return -math.inf if screened.mean is None else screened.mean
