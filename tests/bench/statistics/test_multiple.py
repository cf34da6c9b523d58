"""e-BH, and the test of losses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.bench.statistics.invalid_rates import one_sided_losses
from daneel.bench.statistics.multiple import e_bh


def test_one_hypothesis_is_rejected_at_20():
    assert (e_bh([20.0]), e_bh([19.9]), e_bh([])) == ([True], [False], [])


def test_the_more_are_rejected_the_less_each_needs():
    assert e_bh([40.0, 40.0, 0.1, 0.1]) == [True, True, False, False]
    assert e_bh([40.0, 39.0, 0.1, 0.1]) == [False] * 4
    assert e_bh([80.0, 39.0, 0.1, 0.1]) == [True, False, False, False]
    assert e_bh([20.0, 21.0, 20.0]) == [True] * 3


@given(st.lists(st.floats(0, 1000), max_size=12))
def test_it_rejects_the_largest_set_that_supports_itself(e_values):
    rejected = e_bh(e_values)
    kept = [e for e, is_rejected in zip(e_values, rejected, strict=True) if is_rejected]
    assert all(e * len(kept) >= 20 * len(e_values) for e in kept)
    for more in range(len(kept) + 1, len(e_values) + 1):
        assert sorted(e_values, reverse=True)[more - 1] * more < 20 * len(e_values)


def test_losses_are_told_from_chance_at_the_stated_counts():
    def first(b: int) -> int:
        return next(a for a in range(99) if one_sided_losses(a, b) >= 20)

    assert [first(0), first(1), first(2)] == [8, 11, 14]
    assert one_sided_losses(0, 0) == pytest.approx(1)
    assert one_sided_losses(3, 9) == pytest.approx(one_sided_losses(9, 3))
    assert one_sided_losses(5000, 0) > 1e100


def test_losses_followed_over_time_are_not_called_unequal_by_chance():
    draw, alarms = random.Random(4), 0
    for _ in range(500):
        counts = [0, 0]
        for _ in range(60):
            counts[draw.random() < 0.5] += 1
            if one_sided_losses(*counts) >= 20:
                alarms += 1
                break
    assert alarms / 500 <= 0.05
