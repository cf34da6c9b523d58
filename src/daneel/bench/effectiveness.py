"""Trials of one harness on one goal, as numbers. Pure: nothing is read, run or printed here.

    E = mean over scored trials of  achieved / max(1, turns - 1)         achieved is 0 or 1
    P = share of scored trials that achieved the goal

E asks "how much goal per turn": 1 means every trial reached the goal by the shortest way there is with tools (one turn that
calls, one that answers; or one turn alone). Trials that are invalid or cancelled are counted apart and never scored, and where
nothing was scored there are no numbers at all: `None`, not 0.

**Intervals** are Wilson's score intervals at 95 %, with n trials and z = 1.96:

    (m + z²/2n ± z √(m(1 - m)/n + z²/4n²)) / (1 + z²/n)

For P, with m = P, that is the usual one. For E, with m = E, it is the same formula for a reason: no quantity between 0 and 1
whose mean is E varies more than one that is either 0 or 1. So the interval is rather too wide than too narrow, and, unlike a
bootstrap or Student's t, it does not shrink to nothing when a few trials all happen to give the same value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

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
    """All counts and numbers of some trials; they should be of one harness and one goal."""
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
    effectiveness = _mean([value(trial) for trial in scored])
    num_achieved = sum(bool(trial.achieved) for trial in scored)
    p_achieved = num_achieved / len(scored)
    return Numbers(
        effectiveness=effectiveness,
        effectiveness_interval=score_interval(effectiveness, len(scored)),
        p_achieved=p_achieved,
        p_achieved_interval=score_interval(p_achieved, len(scored)),
        num_achieved=num_achieved,
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


def score_interval(mean: float, num_trials: int, z: float = Z_95) -> Interval:
    """Wilson's score interval for the mean of `num_trials` quantities in [0, 1]; see the module's docstring.

    Raises `ValueError` when there are no trials or the mean is not in [0, 1].
    """
    if num_trials < 1 or not 0 <= mean <= 1:
        raise ValueError(f"no interval for a mean of {mean} over {num_trials} trials")
    spread = z * math.sqrt(mean * (1 - mean) / num_trials + z**2 / (4 * num_trials**2))
    centre, scale = mean + z**2 / (2 * num_trials), 1 + z**2 / num_trials
    # rounding must not push a bound past the mean, which both enclose
    return max(0.0, min(mean, (centre - spread) / scale)), min(1.0, max(mean, (centre + spread) / scale))


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
