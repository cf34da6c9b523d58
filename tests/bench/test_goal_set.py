"""Numbers over goals: means, the two questions and their intervals, pass^k, SPL."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.trials import any_trials, make_trial

from daneel.bench import goal_set as goals
from daneel.bench.effectiveness import mean_interval
from daneel.bench.goal_set import goal_set, pass_power, spl, t_interval


def trials_of(shares, num_trials):
    """For each goal, so many trials, of which that share achieved it."""
    return [
        make_trial(goal=f"g{number}", achieved=index < round(share * num_trials))
        for number, share in enumerate(shares)
        for index in range(num_trials)
    ]


def test_with_fewer_than_ten_goals_the_mean_is_descriptive():
    found = goal_set(trials_of([1.0, 0.5, 0.0], 10))
    assert found.effectiveness == 0.5
    assert found.descriptive
    assert (found.goals_like_these, found.question) == (None, goals.THESE_GOALS)
    assert found.these_goals == pytest.approx(mean_interval(0.5, 30))
    assert [goal.effectiveness for goal in found.by_goal.values()] == [1.0, 0.5, 0.0]
    assert goal_set(trials_of([0.5], 4)).question == goals.ONE_GOAL


def test_with_ten_goals_it_also_speaks_of_goals_like_them():
    found = goal_set(trials_of([1.0] * 5 + [0.0] * 5, 100))
    assert not found.descriptive
    assert found.question == goals.GOALS_LIKE_THESE
    low, high = found.goals_like_these
    assert high - low > 0.6, "ten goals, half of them never achieved, say little of other goals, however many trials there are"
    assert found.these_goals[1] - found.these_goals[0] < 0.07


@given(st.lists(any_trials, max_size=20), st.integers(1, 12))
def test_every_goal_that_was_scored_is_there_and_the_mean_is_theirs(trials, num_goals):
    trials = [replace(trial, goal=f"g{index % num_goals}") for index, trial in enumerate(trials)]
    found = goal_set(trials)
    scored = [trial for trial in trials if trial.scored]
    if not scored:
        assert found is None
        return
    assert set(found.by_goal) == {trial.goal for trial in scored}
    assert sum(goal.num_scored for goal in found.by_goal.values()) == len(scored)
    assert found.effectiveness == pytest.approx(sum(g.effectiveness for g in found.by_goal.values()) / len(found.by_goal))
    assert found.these_goals[0] <= found.effectiveness + 1e-12
    assert found.effectiveness <= found.these_goals[1] + 1e-12


@given(st.integers(1, 9), st.data())
def test_pass_power_is_the_share_of_all_choices_in_which_all_achieved(num_trials, data):
    achieved = data.draw(st.integers(0, num_trials))
    k = data.draw(st.integers(1, num_trials))
    results = [index < achieved for index in range(num_trials)]
    choices = list(itertools.combinations(results, k))
    assert pass_power(achieved, num_trials, k) == pytest.approx(sum(all(choice) for choice in choices) / len(choices))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_pass_power_is_unbiased(p, k):
    n = 5
    expected = sum(math.comb(n, c) * p**c * (1 - p) ** (n - c) * pass_power(c, n, k) for c in range(n + 1))
    assert expected == pytest.approx(p**k)


@pytest.mark.parametrize(("achieved", "num_trials", "k"), [(1, 2, 3), (1, 2, 0), (3, 2, 1), (-1, 2, 1)])
def test_no_pass_power_from_too_few_trials(achieved, num_trials, k):
    with pytest.raises(ValueError, match="no pass"):
        pass_power(achieved, num_trials, k)


def test_pass_power_is_given_as_far_as_each_goal_has_trials():
    found = goal_set([*trials_of([1.0], 8), make_trial(goal="few"), make_trial(goal="few", achieved=False)])
    assert list(found.by_goal["g0"].pass_power) == [1, 2, 4, 8]
    assert found.pass_power == {1: 0.75, 2: 0.5}


def test_spl_only_for_goals_whose_least_number_of_turns_is_known():
    trials = [
        make_trial(goal="a", turns=3),
        make_trial(goal="a", turns=6),
        make_trial(goal="a", achieved=False),
        make_trial(goal="b"),
    ]
    found = goal_set(trials, {"a": 3, "b": None})
    assert found.by_goal["a"].spl == pytest.approx((1 + 0.5 + 0) / 3)
    assert (found.by_goal["b"].spl, found.spl) == (None, found.by_goal["a"].spl)
    assert goal_set(trials).spl is None
    assert spl([make_trial(turns=1)], 3) == 1.0, "a way shorter than the least known is not worth more than 1"
    for some, least in (([], 3), (trials, 0)):
        with pytest.raises(ValueError, match="no SPL"):
            spl(some, least)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_the_t_interval_holds_the_mean_and_is_never_a_point(means):
    low, high = t_interval(means)
    assert 0 <= low <= sum(means) / len(means) + 1e-12
    assert sum(means) / len(means) - 1e-12 <= high <= 1
    assert high - low > 0.02
    with pytest.raises(ValueError, match="no interval"):
        t_interval(means[:1])


@pytest.mark.parametrize("num_goals", [10, 24])
@pytest.mark.parametrize("share", [0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_the_interval_over_goals_holds_the_mean_of_all_goals_in_95_of_100_measurements(share, num_goals):
    """Goals drawn from a population with known E; 10 trials of each. 400 measurements: 0.95 +- 0.022 (two standard errors)."""
    rng = random.Random(20261201)

    def draw():
        return 1 / (1 + math.exp(-(math.log(share / (1 - share)) + rng.gauss(0, 1.5))))

    truth = sum(draw() for _ in range(40_000)) / 40_000
    held = 0
    for _ in range(400):
        means = [sum(rng.random() < p for _ in range(10)) / 10 for p in (draw() for _ in range(num_goals))]
        low, high = t_interval(means)
        held += low <= truth <= high
    assert held / 400 >= 0.928
