"""Trials of one harness, as numbers. Pure: nothing is read, run or printed here.

    E = mean over scored trials of  achieved / max(1, turns - 1)         achieved is 0 or 1
    P = share of scored trials that achieved the goal

Over several goals, E and P are the means of the goals' E and P. E asks "how much goal per turn": 1 means every trial reached
the goal by the shortest way there is with tools (one turn that calls, one that answers; or one turn alone). Trials that are
invalid or cancelled are counted apart and never scored, and where nothing was scored there are no numbers at all.

**Intervals** are at 95 %, over n trials. That of P is Wilson's score interval, with z = 1.96:

    (P + z²/2n ± z √(P(1 - P)/n + z²/4n²)) / (1 + z²/n)

It holds the true P in 95 of 100 measurements on average over all P, in fewer for some. That of E is Clopper's and Pearson's
(1934), with E n in place of the number of successes: the quantiles at 2.5 and 97.5 % of the beta distributions with the
parameters (E n, n - E n + 1) and (E n + 1, n - E n). For values that are 0 or 1 it holds the truth in at least 95 of 100,
whatever it is, and no values between 0 and 1 with the same mean vary more than those; so it is rather too wide than too narrow,
and does not shrink to nothing when a few trials all happen to give the same value. Over several goals the intervals are about
these goals, and n is the harmonic number of trials; `goal_set.py` has what can be said of other goals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from daneel.bench.quantiles import beta_quantile
from daneel.bench.record import Trial

Interval = tuple[float, float]

Z_95 = 1.959963984540054
"""Quantile of the standard normal distribution that leaves 2.5 % above it."""


class Numbers(Struct, frozen=True, kw_only=True):
    """What the scored trials of a harness gave. Token means are `None` where the server counted no tokens."""

    effectiveness: float
    effectiveness_interval: Interval
    p_achieved: float
    p_achieved_interval: Interval
    num_achieved: int
    mean_turns: float
    mean_calls: float
    mean_prompt_tokens: float | None
    mean_completion_tokens: float | None
    mean_duration_s: float
    cached_share: float | None
    """Of all prompt tokens of the scored trials, the share read from the KV cache."""


class Summary(Struct, frozen=True, kw_only=True):
    """Every trial of a harness accounted for: `num_trials` = scored + invalid + cancelled."""

    num_trials: int
    num_scored: int
    num_invalid: int
    num_cancelled: int
    stop_reasons: dict[str, int]
    """How often each occurred, over all trials, the most frequent first."""
    not_scored: dict[str, int]
    """Why trials were not scored, and how often."""
    numbers: Numbers | None


def summarise(trials: Sequence[Trial]) -> Summary:
    """All counts and numbers of some trials; they should be of one harness."""
    num_scored = sum(trial.scored for trial in trials)
    num_cancelled = sum(not trial.scored and trial.cancelled for trial in trials)
    return Summary(
        num_trials=len(trials),
        num_scored=num_scored,
        num_invalid=len(trials) - num_scored - num_cancelled,
        num_cancelled=num_cancelled,
        stop_reasons=dict(Counter(trial.stop_reason for trial in trials).most_common()),
        not_scored=dict(Counter(trial.not_scored or trial.stop_reason for trial in trials if not trial.scored).most_common()),
        numbers=numbers(trials),
    )


def numbers(trials: Sequence[Trial]) -> Numbers | None:
    """The numbers of those trials that were scored, or `None` when none was."""
    scored = [trial for trial in trials if trial.scored]
    if not scored:
        return None
    by_goal: dict[str, list[Trial]] = {}
    for trial in scored:
        by_goal.setdefault(trial.goal, []).append(trial)
    effectiveness = _mean([_mean([value(trial) for trial in some]) for some in by_goal.values()])
    p_achieved = _mean([_mean([float(bool(trial.achieved)) for trial in some]) for some in by_goal.values()])
    weight = harmonic([len(some) for some in by_goal.values()])
    return Numbers(
        effectiveness=effectiveness,
        effectiveness_interval=mean_interval(effectiveness, weight),
        p_achieved=p_achieved,
        p_achieved_interval=score_interval(p_achieved, weight),
        num_achieved=sum(bool(trial.achieved) for trial in scored),
        mean_turns=_mean([trial.turns for trial in scored]),
        mean_calls=_mean([trial.calls for trial in scored]),
        mean_prompt_tokens=_mean_of_known(scored, lambda trial: trial.prompt_tokens),
        mean_completion_tokens=_mean_of_known(scored, lambda trial: trial.completion_tokens),
        mean_duration_s=_mean([trial.duration_s for trial in scored]),
        cached_share=_cached_share(scored),
    )


def value(trial: Trial) -> float:
    """What one scored trial adds to E: achieved / max(1, turns - 1), in [0, 1]. Raises `ValueError` for one not scored."""
    if trial.achieved is None:
        raise ValueError(f"trial {trial.index} of {trial.harness} was not scored: {trial.not_scored}")
    return trial.achieved / max(1, trial.turns - 1)


def harmonic(counts: Sequence[int]) -> float:
    """G² / sum(1/n), for n trials of each of G goals: so many, evenly spread, tell as much of the mean of the goals' means."""
    return len(counts) ** 2 / math.fsum(1 / count for count in counts)


def score_interval(mean: float, num_trials: float, z: float = Z_95) -> Interval:
    """Wilson's score interval for a share of `num_trials`; see the module's docstring.

    Raises `ValueError` when there are no trials or the share is not in [0, 1].
    """
    _check(mean, num_trials)
    spread = z * math.sqrt(mean * (1 - mean) / num_trials + z**2 / (4 * num_trials**2))
    centre, scale = mean + z**2 / (2 * num_trials), 1 + z**2 / num_trials
    # rounding must not push a bound past the mean, which both enclose
    return max(0.0, min(mean, (centre - spread) / scale)), min(1.0, max(mean, (centre + spread) / scale))


def mean_interval(mean: float, num_trials: float) -> Interval:
    """Clopper's and Pearson's interval for the mean of `num_trials` values in [0, 1]; see the module's docstring.

    Raises `ValueError` when there are no trials or the mean is not in [0, 1].
    """
    _check(mean, num_trials)
    total, rest = mean * num_trials, (1 - mean) * num_trials
    low = beta_quantile(0.025, total, rest + 1) if total > 0 else 0.0
    high = beta_quantile(0.975, total + 1, rest) if rest > 0 else 1.0
    return min(mean, low), max(mean, high)


def _check(mean: float, num_trials: float) -> None:
    if not num_trials > 0 or not 0 <= mean <= 1:
        raise ValueError(f"no interval for a mean of {mean} over {num_trials} trials")


def _mean(values: Sequence[float]) -> float:
    # the rounding of a sum must not lead out of the range of its values
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def _mean_of_known(trials: Sequence[Trial], field: Callable[[Trial], int | None]) -> float | None:
    known = [count for trial in trials if (count := field(trial)) is not None]
    return _mean(known) if known else None


def _cached_share(trials: Sequence[Trial]) -> float | None:
    known = [(trial.cached_tokens, trial.prompt_tokens) for trial in trials if trial.prompt_tokens]
    counted = [(cached, prompt) for cached, prompt in known if cached is not None and prompt is not None]
    total = sum(prompt for _, prompt in counted)
    return sum(cached for cached, _ in counted) / total if total else None
