"""Screening: it never takes more trials than it said, orders by what it saw, and lets go of what is clearly worse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.trials import make_trial

from daneel.bench.tune.screening import RUNGS, Screened, affordable, cost, screen


def screened_with(values, known=0, rungs=RUNGS):
    """Screen arms whose trials have these values (turns - 1 = 1/value, or not achieved; None: not scored)."""
    trials = []

    def trial(arm, index):
        value = values[arm](index)
        about = {"achieved": None, "stop_reason": "invalid"} if value is None else {"achieved": value > 0}
        return make_trial(harness=arm, index=index, turns=2 if not value else 1 + round(1 / value), **about)

    def run(arms, indexes):
        made = [trial(arm, index) for index in indexes for arm in arms]
        trials.extend(made)
        return made

    first = [trial("base", index) for index in range(known)]
    return screen("base", [arm for arm in values if arm != "base"], first, run, rungs), len(trials)


@given(st.integers(0, 40), st.integers(0, 2000), st.integers(0, 60))
def test_what_is_affordable_is_paid_for(num_candidates, trials, known):
    count, rungs = affordable(num_candidates, trials, known)
    assert 0 <= count <= num_candidates
    assert count == 0 or cost(count, rungs, known) <= trials
    assert rungs == RUNGS[: len(rungs)]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=9), st.integers(0, 40), st.integers(1, len(RUNGS)))
def test_it_takes_no_more_trials_than_it_said(levels, known, num_rungs):
    values = {"base": lambda index: 0.5, **{f"c{n}": lambda index, level=level: level for n, level in enumerate(levels)}}
    found, num_trials = screened_with(values, known, RUNGS[:num_rungs])
    assert num_trials <= cost(len(levels), RUNGS[:num_rungs], known)
    assert sorted(each.arm for each in found) == sorted(set(values) - {"base"})


def test_the_best_comes_first_and_what_went_out_last():
    values = {"base": lambda index: 0.5, "worse": lambda index: (0.0, 0.5)[index % 2], "same": lambda index: 0.5}
    values |= {"best": lambda index: 1.0, "better": lambda index: (1.0, 0.5)[index % 2], "dead": lambda index: None}
    found, _ = screened_with(values)
    assert [each.arm for each in found][:2] == ["best", "better"]
    assert found[-1].arm == "dead"
    assert found[-1].mean is None
    assert found[0].num_pairs == RUNGS[-1]
    assert found[0].mean == 0.5


def test_what_is_clearly_worse_goes_out_though_it_is_the_only_one():
    (only,), num_trials = screened_with({"base": lambda index: 1.0, "bad": lambda index: (0.0, 0.5)[index % 2]})
    assert only.is_out
    assert only.num_pairs == RUNGS[1]
    assert num_trials == 2 * RUNGS[1]


def test_a_few_bad_pairs_are_no_proof():
    assert not Screened("a", [-1.0] * (RUNGS[1] - 1)).is_worse
    assert Screened("a", [-1.0] * RUNGS[1]).is_worse
    assert not Screened("a", [-1.0, 1.0] * RUNGS[1]).is_worse
