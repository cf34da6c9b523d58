"""The formulas, their bounds, and that no trial that may not be scored ever is."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trials import any_trials, make_trial, scored_trials, unscored_trials

from daneel.bench.effectiveness import mean_interval, numbers, score_interval, summarise, value


@pytest.mark.parametrize(
    ("achieved", "turns", "expected"),
    [(True, 0, 1), (True, 1, 1), (True, 2, 1), (True, 3, 0.5), (True, 5, 0.25), (False, 1, 0), (False, 9, 0)],
)
def test_the_value_of_a_trial(achieved, turns, expected):
    assert value(make_trial(achieved=achieved, turns=turns)) == expected


def test_known_trials_give_the_known_numbers():
    trials = [
        make_trial(turns=2, calls=2, prompt_tokens=100, cached_tokens=0, completion_tokens=10, duration_s=1),
        make_trial(turns=3, calls=3, prompt_tokens=300, cached_tokens=200, completion_tokens=30, duration_s=2),
        make_trial(turns=8, calls=7, achieved=False, stop_reason="turn_limit", prompt_tokens=None, cached_tokens=None,
                   completion_tokens=None, duration_s=6),
        make_trial(turns=4, achieved=None, stop_reason="invalid", not_scored="the server went away", duration_s=99),
        make_trial(turns=1, achieved=None, stop_reason="cancelled"),
    ]  # fmt: skip
    summary = summarise(trials)
    assert (summary.num_trials, summary.num_scored, summary.num_invalid, summary.num_cancelled) == (5, 3, 1, 1)
    assert summary.stop_reasons == {"answered": 2, "turn_limit": 1, "invalid": 1, "cancelled": 1}
    assert summary.not_scored == {"the server went away": 1, "cancelled": 1}
    found = summary.numbers
    assert found.effectiveness == pytest.approx((1 + 0.5 + 0) / 3)
    assert (found.num_achieved, found.p_achieved) == (2, pytest.approx(2 / 3))
    assert (found.mean_turns, found.mean_calls, found.mean_duration_s) == (pytest.approx(13 / 3), 4, 3)
    assert (found.mean_prompt_tokens, found.mean_completion_tokens) == (200, 20)
    assert found.cached_share == 0.5


@given(st.lists(unscored_trials, max_size=6))
def test_where_nothing_was_scored_there_are_no_numbers(trials):
    assert numbers(trials) is None
    assert summarise(trials).numbers is None


def test_numbers_of_trials_without_token_counts_are_unknown_and_not_zero():
    found = numbers([make_trial(prompt_tokens=None, completion_tokens=None, cached_tokens=None)])
    assert (found.mean_prompt_tokens, found.mean_completion_tokens, found.cached_share) == (None, None, None)


@given(st.lists(any_trials, max_size=12))
def test_every_trial_is_counted_once(trials):
    summary = summarise(trials)
    assert summary.num_scored + summary.num_invalid + summary.num_cancelled == summary.num_trials == len(trials)
    assert sum(summary.stop_reasons.values()) == len(trials)
    assert sum(summary.not_scored.values()) == len(trials) - summary.num_scored
    assert (summary.numbers is None) == (summary.num_scored == 0)


@given(st.lists(scored_trials, min_size=1, max_size=12), st.lists(unscored_trials, max_size=5), st.randoms())
def test_unscored_trials_and_order_change_no_number(scored, unscored, shuffler):
    mixed = [*scored, *unscored]
    shuffler.shuffle(mixed)
    assert numbers(mixed) == numbers(scored)


@given(st.lists(scored_trials, min_size=1, max_size=12))
def test_numbers_stay_within_their_bounds(trials):
    found = numbers(trials)
    low, high = found.effectiveness_interval
    assert 0 <= low <= found.effectiveness <= high <= 1
    assert found.p_achieved_interval[0] <= found.p_achieved <= found.p_achieved_interval[1]
    assert found.effectiveness <= found.p_achieved + 1e-12, "E is P, less what extra turns cost"
    assert (found.effectiveness == 0) == (found.p_achieved == 0)


@given(st.lists(scored_trials, min_size=1, max_size=12))
def test_one_more_turn_never_raises_effectiveness(trials):
    slower = [make_trial(achieved=trial.achieved, turns=trial.turns + 1) for trial in trials]
    assert numbers(slower).effectiveness <= numbers(trials).effectiveness


@given(st.floats(0, 1), st.integers(1, 10**6))
def test_the_interval_solves_its_equation(mean, num_trials):
    """Wilson's bounds p are where |mean - p| = z sqrt(p (1 - p) / n); a bound at 0 or 1 may have been cut there."""
    for bound in score_interval(mean, num_trials):
        assert math.isclose((mean - bound) ** 2, 1.959963984540054**2 * bound * (1 - bound) / num_trials,
                            rel_tol=1e-6, abs_tol=1e-9)  # fmt: skip


@pytest.mark.parametrize("interval", [score_interval, mean_interval])
@pytest.mark.parametrize("num_trials", [*range(1, 60), 199, 1000])
def test_the_interval_holds_its_mean_whatever_the_rounding(num_trials, interval):
    for mean in (0.0, 1.0, 0.5, 1 / 3, 1 - 2**-53, 5e-324):
        low, high = interval(mean, num_trials)
        assert 0 <= low <= mean <= high <= 1


def test_the_intervals_of_the_textbook():
    assert score_interval(0.5, 10) == pytest.approx((0.236593, 0.763407), abs=1e-6)  # Wilson (1927) for 5 of 10
    assert score_interval(1.0, 5) == pytest.approx((0.565518, 1.0), abs=1e-6)
    assert mean_interval(0.5, 10) == pytest.approx((0.187086, 0.812914), abs=1e-6)  # Clopper, Pearson (1934) for 5 of 10
    assert mean_interval(1.0, 5) == pytest.approx((0.025 ** (1 / 5), 1.0))


@pytest.mark.parametrize("interval", [score_interval, mean_interval])
@given(st.floats(0, 1), st.integers(1, 1000))
def test_more_trials_narrow_the_interval(interval, mean, num_trials):
    few, many = interval(mean, num_trials), interval(mean, 4 * num_trials)
    assert many[1] - many[0] < few[1] - few[0]


@pytest.mark.parametrize("interval", [score_interval, mean_interval])
@pytest.mark.parametrize(("mean", "num_trials"), [(0.5, 0), (-0.1, 5), (1.1, 5), (float("nan"), 5)])
def test_no_interval_without_trials_or_outside_the_range(mean, num_trials, interval):
    with pytest.raises(ValueError, match="no interval"):
        interval(mean, num_trials)


TWELVE = {  # harnesses with known E: (weight, achieved, turns)
    "always, the shortest way": [(1, True, 2)],
    "never": [(1, False, 3)],
    "half of the time": [(1, True, 2), (1, False, 2)],
    "rarely": [(1, True, 2), (19, False, 5)],
    "nearly always": [(19, True, 2), (1, False, 8)],
    "always, one turn more": [(1, True, 3)],
    "half of the time, one turn more": [(1, True, 3), (1, False, 8)],
    "as it comes": [(4, True, 2), (3, True, 3), (1, True, 5), (2, False, 8)],
    "the long way": [(3, True, 6), (2, False, 8)],
    "two ways": [(1, True, 2), (1, True, 8)],
    "a guess": [(1, True, 1), (9, False, 4)],
    "weak": [(1, True, 4), (4, False, 8)],
}


@pytest.mark.parametrize("num_trials", [5, 10, 20, 50])
@pytest.mark.parametrize("name", TWELVE)
def test_the_interval_holds_the_true_effectiveness_in_95_of_100_measurements(name, num_trials):
    """Over 1,000 simulated measurements. Their own chance: 0.95 +- 0.014 (two standard errors)."""
    outcomes = TWELVE[name]
    truth = sum(w * a / max(1, t - 1) for w, a, t in outcomes) / sum(w for w, _, _ in outcomes)
    trials = [make_trial(achieved=achieved, turns=turns) for _, achieved, turns in outcomes]
    values, weights = [value(trial) for trial in trials], [w for w, _, _ in outcomes]
    rng, repeats, known = random.Random(20261201), 1000, {}
    held = 0
    for _ in range(repeats):
        mean = min(1.0, math.fsum(rng.choices(values, weights, k=num_trials)) / num_trials)
        low, high = known[mean] = known.get(mean) or mean_interval(mean, num_trials)
        held += low <= truth <= high
    assert held / repeats >= 0.95


def test_over_several_goals_effectiveness_is_the_mean_of_the_goals_whatever_their_numbers_of_trials():
    easy = [make_trial(goal="easy")] * 30
    hard = [make_trial(goal="hard", achieved=False), make_trial(goal="hard", turns=3)]
    found = numbers(easy + hard)
    assert (found.effectiveness, found.p_achieved, found.num_achieved) == (0.625, 0.75, 31)
    assert found.effectiveness_interval == mean_interval(0.625, 4 / (1 / 30 + 1 / 2)), "30 trials of one goal are no 30 of both"
