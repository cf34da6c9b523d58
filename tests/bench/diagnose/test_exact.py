"""Exact tests against what can be counted by hand, or by going through all cases."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.bench.diagnose.exact import binomial_tail, hypergeometric, more_often_in_first, rarely_together


@given(st.integers(1, 60), st.data(), st.floats(0.01, 0.99))
def test_the_binomial_tail_is_the_sum_of_its_terms(count: int, data: st.DataObject, probability: float) -> None:
    successes = data.draw(st.integers(0, count))
    terms = [comb(count, k) * probability**k * (1 - probability) ** (count - k) for k in range(successes, count + 1)]
    assert binomial_tail(successes, count, probability) == pytest.approx(sum(terms), rel=1e-9)


def test_the_binomial_tail_at_its_ends() -> None:
    assert binomial_tail(0, 0, 0.5) == 1.0
    assert binomial_tail(3, 3, 0.0) == 0.0
    assert binomial_tail(3, 3, 1.0) == 1.0
    assert binomial_tail(5000, 10_000, 0.1) == 0.0


@given(st.integers(1, 40), st.data())
def test_hypergeometric_probabilities_add_up_to_one(total: int, data: st.DataObject) -> None:
    marked, drawn = data.draw(st.integers(0, total)), data.draw(st.integers(0, total))
    assert sum(hypergeometric(total, marked, drawn).values()) == pytest.approx(1.0)


def test_fishers_test_counts_all_ways_to_lay_out_a_table() -> None:
    # of 12 calls 7 were of use; all 5 before the gate were not
    ways = [chosen for chosen in combinations(range(12), 7) if sum(place < 7 for place in chosen) >= 7]
    assert more_often_in_first((7, 7), (0, 5)) == pytest.approx(len(ways) / comb(12, 7))


def test_two_tools_that_never_meet_in_two_goals() -> None:
    one = comb(10, 5)
    assert rarely_together([(10, 5, 5, 0)]) == pytest.approx(1 / one)
    assert rarely_together([(10, 5, 5, 0), (10, 5, 5, 0)]) == pytest.approx(1 / one**2)
    assert rarely_together([(10, 5, 5, 3)]) == 1.0


def test_large_tables_come_to_nearly_the_same_p() -> None:
    total, a, b = 400, 200, 200
    exact = hypergeometric(total, a, b)
    for both in (70, 80, 85):
        assert rarely_together([(total, a, b, both)]) == pytest.approx(sum(p for k, p in exact.items() if k <= both), rel=0.6)
