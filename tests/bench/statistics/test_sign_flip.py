"""The permutation test of a fixed number of pairs."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.differences import three_points

from daneel.bench.statistics.sign_flip import MAX_EXACT, SignFlips


@given(st.lists(st.sampled_from([-1, -0.5, -1 / 3, 0, 0.2, 0.5, 1]), min_size=1, max_size=9), st.sampled_from([0.0, 0.1, -0.3]))
def test_few_differences_are_flipped_in_every_way(differences, null):
    shifted = [difference - null for difference in differences]
    sums = [sum(sign * d for sign, d in zip(signs, shifted, strict=True)) for signs in product((1, -1), repeat=len(shifted))]
    at_least_as_far = sum(abs(total) >= abs(sum(shifted)) - 1e-9 for total in sums)
    assert SignFlips(differences).p_value(null) == at_least_as_far / len(sums)


def test_many_differences_give_nearly_the_exact_p_and_always_the_same():
    draw = random.Random(5)
    differences = [draw.choice([-0.5, 0, 0.5, 1]) for _ in range(MAX_EXACT)]
    exact = SignFlips(differences).p_value()
    padded = [*differences, 0.0, 0.0, 0.0]  # zeros change nothing, but there are too many to try all
    drawn = SignFlips(padded, seed=1).p_value()
    assert drawn == pytest.approx(exact, abs=0.02)
    assert drawn == SignFlips(padded, seed=1).p_value()
    assert drawn != SignFlips(padded, seed=2).p_value()


def test_p_is_never_0_and_ties_alone_say_nothing():
    assert SignFlips([1.0] * 60).p_value() == 1 / 10_000
    assert SignFlips([0.0] * 60).p_value() == 1.0
    with pytest.raises(ValueError, match="no differences"):
        SignFlips([])


@given(st.lists(st.sampled_from([-1, -0.5, 0, 0.2, 0.5, 1]), min_size=1, max_size=12))
def test_the_interval_holds_what_is_not_rejected(differences):
    flips = SignFlips(differences)
    low, high = flips.interval(0.05)
    mean = sum(differences) / len(differences)
    assert -1 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1
    for null in (low - 0.01, high + 0.01):
        assert not -1 < null < 1 or flips.p_value(null) <= 0.05
    if flips.p_value(0.0) <= 0.05:
        assert not low + 1e-6 < 0 < high - 1e-6


def test_false_positives_and_power_of_a_fixed_number_of_pairs():
    null, there = three_points(0, 0.5, 1.0, random.Random(1)), three_points(0.5, 0.5, 1.0, random.Random(2))
    rejected = {
        name: sum(SignFlips([draw() for _ in range(12)]).p_value() <= 0.05 for _ in range(250)) / 250
        for name, draw in (("null", null), ("there", there))
    }
    assert rejected["null"] <= 0.05
    assert rejected["there"] > 0.4
