"""Quantiles against tables, closed forms, and one another."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.bench.quantiles import beta_cdf, beta_quantile, t_quantile


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [(0.95, 1, 12.7062), (0.95, 2, 4.30265), (0.95, 9, 2.26216), (0.95, 10, 2.22814), (0.95, 120, 1.97993), (0.99, 11, 3.10581),
     (0.5, 1, 1.0), (0.95, 1e6, 1.95996)],
)  # fmt: skip
def test_students_t_as_the_tables_have_it(probability, degrees, expected):
    assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-5)


@given(st.floats(0, 1), st.integers(1, 40), st.integers(1, 40))
def test_the_beta_distribution_is_the_binomials_tail(x, a, b):
    n = a + b - 1
    tail = math.fsum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
    assert beta_cdf(x, a, b) == pytest.approx(tail, abs=1e-10)


@given(st.floats(0.01, 0.99), st.floats(0.05, 500), st.floats(0.5, 500))
def test_a_quantile_undoes_the_distribution(probability, a, b):
    assert beta_cdf(beta_quantile(probability, a, b), a, b) == pytest.approx(probability, abs=1e-6)


@pytest.mark.parametrize(("call", "arguments"), [(beta_cdf, (0.5, 0, 1)), (beta_cdf, (0.5, 1, -1)), (beta_quantile, (0, 1, 1)),
                                                 (t_quantile, (1, 5)), (t_quantile, (0.95, 0))])  # fmt: skip
def test_what_is_no_distribution_is_refused(call, arguments):
    with pytest.raises(ValueError, match=r"parameters|quantile"):
        call(*arguments)
