"""Where a difference in E comes from: more goals achieved, or fewer turns when they are achieved. Pure and exact.

On one goal, E = P S: P is the share of trials that achieved it, S the mean of 1/max(1, turns - 1) over those that did. So

    E1 - E2 = (P1 - P2) (S1 + S2)/2  +  (S1 - S2) (P1 + P2)/2

the first being what comes of achieving it more often, the second of doing so in fewer turns. It is the mean of the two orders
in which one could change P and S (Shapley's division), and leaves no rest. Where one side never achieved the goal it has no S,
and all is put down to P. Over several goals each part is the mean over goals, as E is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from daneel.bench.effectiveness import value
from daneel.bench.record import Trial


class Part(Struct, frozen=True, kw_only=True):
    """`difference` = `more_achieved` + `fewer_turns`."""

    difference: float
    more_achieved: float
    fewer_turns: float


class Decomposition(Part, frozen=True, kw_only=True):
    """Of E(first) - E(second), over the goals that both were scored on; and of each of these."""

    by_goal: dict[str, Part]


def decompose(first: Sequence[Trial], second: Sequence[Trial]) -> Decomposition | None:
    """The parts of E(first) - E(second); `None` when no goal has scored trials of both."""
    ours, theirs = _by_goal(first), _by_goal(second)
    by_goal = {goal: _part(ours[goal], theirs[goal]) for goal in ours if goal in theirs}
    if not by_goal:
        return None
    more, fewer = (
        math.fsum(getattr(part, name) for part in by_goal.values()) / len(by_goal) for name in ("more_achieved", "fewer_turns")
    )
    return Decomposition(difference=more + fewer, more_achieved=more, fewer_turns=fewer, by_goal=by_goal)


def _by_goal(trials: Sequence[Trial]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial.scored:
            found.setdefault(trial.goal, []).append(value(trial))
    return found


def _part(ours: Sequence[float], theirs: Sequence[float]) -> Part:
    p1, s1 = _share_and_speed(ours)
    p2, s2 = _share_and_speed(theirs)
    s1, s2 = (s2 if s1 is None else s1), (s1 if s2 is None else s2)
    if s1 is None or s2 is None:  # neither ever achieved it
        return Part(difference=0.0, more_achieved=0.0, fewer_turns=0.0)
    more, fewer = (p1 - p2) * (s1 + s2) / 2, (s1 - s2) * (p1 + p2) / 2
    return Part(difference=more + fewer, more_achieved=more, fewer_turns=fewer)


def _share_and_speed(values: Sequence[float]) -> tuple[float, float | None]:
    achieved = [each for each in values if each > 0]
    return len(achieved) / len(values), math.fsum(achieved) / len(achieved) if achieved else None
