"""One harness on several goals: E per goal and over all of them, and which question each interval answers. Pure.

Over a set of goals E is the mean of the goals' E, so that a goal with more trials weighs no more than another. There are two
questions that it may answer, and they have different intervals:

- *These goals, tried again*: only the trials are chance. The interval is that of E in `effectiveness.py`, with the harmonic
  number of trials G² / sum(1/n_g); it is narrow when there are many trials, however few the goals.
- *Goals like these*: the goals are a sample as well. The interval is Student's t on the goals' means, each one number; more
  trials of the same goals hardly narrow it. It is never narrower than the other. With fewer than `FEWEST_GOALS` it is not
  given: the mean is then *descriptive*, it speaks of these goals alone.

**pass^k** is the probability that k trials of a goal in a row all achieve it: with c of n, C(c, k)/C(n, k) is its unbiased
estimate (the share of all choices of k trials in which all did); only for k <= n. **SPL**, success weighted by path length
(P. Anderson et al., "On Evaluation of Embodied Navigation Agents", 2018), is the mean of achieved * min_turns / max(turns,
min_turns), for goals whose least number of turns is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from daneel.bench.effectiveness import Interval, harmonic, mean_interval, numbers, value
from daneel.bench.quantiles import t_quantile
from daneel.bench.record import Trial

FEWEST_GOALS = 10
"""Of fewer goals nothing is said about goals like them."""
POWERS = (1, 2, 4, 8, 16)
"""The k of pass^k that are given, as far as there are trials."""

_AT_ENDS = 0.25
"""Of a goal that always fails, and of one that never does: so much is added to a sample of goals, see `t_interval`."""

ONE_GOAL = "How effective would it be on this goal if it were tried again? The interval is over trials."
THESE_GOALS = "How effective would it be on these goals if they were tried again? The interval is over trials."
GOALS_LIKE_THESE = "How effective would it be on other goals like these? The interval is Student's t on the goals' means."
DESCRIPTIVE = f"descriptive: fewer than {FEWEST_GOALS} goals say nothing of other goals"


class GoalNumbers(Struct, frozen=True, kw_only=True):
    """A harness on one goal. `pass_power`: pass^k by k. `spl` is `None` where `min_turns` is not known."""

    goal: str
    num_scored: int
    num_achieved: int
    effectiveness: float
    effectiveness_interval: Interval
    p_achieved: float
    p_achieved_interval: Interval
    mean_turns: float
    pass_power: dict[int, float]
    min_turns: int | None = None
    spl: float | None = None


class GoalSet(Struct, frozen=True, kw_only=True):
    """A harness on all its goals that have a scored trial; see the module's docstring."""

    by_goal: dict[str, GoalNumbers]
    effectiveness: float
    these_goals: Interval
    goals_like_these: Interval | None
    question: str
    """What the widest interval that is given answers, in words."""
    pass_power: dict[int, float]
    """The mean over goals, for those k for which each goal has enough trials."""
    spl: float | None
    """The mean over the goals whose `min_turns` is known."""

    @property
    def descriptive(self) -> bool:
        return len(self.by_goal) < FEWEST_GOALS


def goal_set(trials: Sequence[Trial], min_turns: Mapping[str, int | None] | None = None) -> GoalSet | None:
    """All numbers of one harness, goal by goal; `None` when nothing was scored."""
    known = min_turns or {}
    by_name: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.scored:
            by_name.setdefault(trial.goal, []).append(trial)
    if not by_name:
        return None
    by_goal = {name: _of_goal(name, some, known.get(name)) for name, some in by_name.items()}
    goals = list(by_goal.values())
    means = [goal.effectiveness for goal in goals]
    mean = math.fsum(means) / len(means)
    spls = [goal.spl for goal in goals if goal.spl is not None]
    powers = [k for k in POWERS if all(k in goal.pass_power for goal in goals)]
    these_goals = mean_interval(min(1.0, mean), harmonic([goal.num_scored for goal in goals]))
    wide = _around(these_goals, t_interval(means)) if len(means) >= FEWEST_GOALS else None
    return GoalSet(
        by_goal=by_goal,
        effectiveness=mean,
        these_goals=these_goals,
        goals_like_these=wide,
        question=ONE_GOAL if len(goals) == 1 else THESE_GOALS if wide is None else GOALS_LIKE_THESE,
        pass_power={k: math.fsum(goal.pass_power[k] for goal in goals) / len(goals) for k in powers},
        spl=math.fsum(spls) / len(spls) if spls else None,
    )


def _of_goal(name: str, scored: Sequence[Trial], min_turns: int | None) -> GoalNumbers:
    found = numbers(scored)
    assert found is not None
    return GoalNumbers(
        goal=name,
        num_scored=len(scored),
        num_achieved=found.num_achieved,
        effectiveness=found.effectiveness,
        effectiveness_interval=found.effectiveness_interval,
        p_achieved=found.p_achieved,
        p_achieved_interval=found.p_achieved_interval,
        mean_turns=found.mean_turns,
        pass_power={k: pass_power(found.num_achieved, len(scored), k) for k in POWERS if k <= len(scored)},
        min_turns=min_turns,
        spl=None if min_turns is None else spl(scored, min_turns),
    )


def _around(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def t_interval(means: Sequence[float], probability: float = 0.95) -> Interval:
    """Student's t for the mean of independent numbers in [0, 1], with a quarter of a number more at either end of the range.

    By itself t is too sure of means near 0 or 1: of numbers that are all alike it would be certain, and in simulations it holds
    the truth in 85 to 90 of 100 where most goals are always achieved. With the quarters it is 95 and more, and elsewhere hardly
    wider. The idea is that of A. Agresti and B. Coull (1998) for shares. Raises `ValueError` for fewer than two numbers.
    """
    count = len(means)
    if count < 2:
        raise ValueError(f"no interval on the means of {count} goals")
    weight, mean = count + 2 * _AT_ENDS, math.fsum(means) / count
    centre = (math.fsum(means) + _AT_ENDS) / weight
    at_ends = _AT_ENDS * (centre**2 + (1 - centre) ** 2)
    variance = (math.fsum((each - centre) ** 2 for each in means) + at_ends) / (weight - 1)
    half = t_quantile(probability, count - 1) * math.sqrt(variance / weight)
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def pass_power(num_achieved: int, num_trials: int, k: int) -> float:
    """The unbiased estimate of the probability that k trials all achieve the goal. Raises `ValueError` unless 1 <= k <= n."""
    if not 1 <= k <= num_trials or not 0 <= num_achieved <= num_trials:
        raise ValueError(f"no pass^{k} from {num_achieved} of {num_trials} trials")
    return math.comb(num_achieved, k) / math.comb(num_trials, k)


def spl(trials: Sequence[Trial], min_turns: int) -> float:
    """Success weighted by path length, of scored trials. Raises `ValueError` for no trials, or a least number below 1."""
    if min_turns < 1 or not trials:
        raise ValueError(f"no SPL from {len(trials)} trials of a goal of at least {min_turns} turns")
    return math.fsum(bool(value(trial)) * min_turns / max(trial.turns, min_turns) for trial in trials) / len(trials)
