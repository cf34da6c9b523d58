"""The two parts of a difference in E: their sum, their signs, and cases that can be told by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trials import make_trial, scored_trials, unscored_trials

from daneel.bench.decomposition import decompose
from daneel.bench.effectiveness import numbers


def some(*outcomes, goal="now"):
    return [make_trial(goal=goal, achieved=achieved, turns=turns) for achieved, turns in outcomes]


def test_only_more_achieved():
    parts = decompose(some((True, 2), (True, 2)), some((True, 2), (False, 8)))
    assert (parts.difference, parts.more_achieved, parts.fewer_turns) == (0.5, 0.5, 0.0)


def test_only_fewer_turns():
    parts = decompose(some((True, 2), (False, 8)), some((True, 3), (False, 2)))
    assert (parts.difference, parts.more_achieved, parts.fewer_turns) == (0.25, 0.0, 0.25)


def test_one_may_win_what_the_other_loses():
    parts = decompose(some((True, 3), (True, 3)), some((True, 2), (False, 2)))
    assert (parts.difference, parts.more_achieved, parts.fewer_turns) == (0.0, 0.375, -0.375)


def test_where_one_never_achieved_it_all_is_put_down_to_that():
    parts = decompose(some((True, 3), (True, 2)), some((False, 2)))
    assert (parts.difference, parts.more_achieved, parts.fewer_turns) == (0.75, 0.75, 0.0)
    neither = decompose(some((False, 3)), some((False, 2)))
    assert (neither.difference, neither.more_achieved, neither.fewer_turns) == (0.0, 0.0, 0.0)


def test_only_goals_that_both_were_scored_on():
    first = some((True, 2), goal="a") + some((True, 2), goal="b")
    second = some((False, 2), goal="a") + some((False, 2), goal="c")
    parts = decompose(first, second)
    assert (list(parts.by_goal), parts.difference) == (["a"], 1.0)
    assert decompose(first, some((True, 2), goal="c")) is None
    assert decompose(first, []) is None


@given(st.lists(scored_trials, min_size=1, max_size=9), st.lists(scored_trials, min_size=1, max_size=9),
       st.lists(unscored_trials, max_size=3))  # fmt: skip
def test_the_parts_add_up_and_the_other_way_round_they_are_the_opposite(first, second, unscored):
    parts = decompose(first + unscored, second)
    assert parts.more_achieved + parts.fewer_turns == pytest.approx(parts.difference, abs=1e-12)
    assert parts.difference == pytest.approx(numbers(first).effectiveness - numbers(second).effectiveness, abs=1e-12)
    back = decompose(second, first)
    assert (back.more_achieved, back.fewer_turns) == (pytest.approx(-parts.more_achieved), pytest.approx(-parts.fewer_turns))
