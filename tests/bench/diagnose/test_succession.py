"""The permutation test of successions: right moments, p that is p, and always the same."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise, permutations

import pytest

from daneel.bench.diagnose.succession import _moments, max_t


@pytest.mark.parametrize("names", ["abc", "aab", "aabb", "abcab", "aaaab"])
def test_mean_and_variance_are_those_of_all_orders(names: str) -> None:
    orders = list(permutations(names))
    counts = [Counter(pairwise(order)) for order in orders]
    for pair, (mean, variance) in _moments([list(names)]).items():
        seen = [count[pair] for count in counts]
        true_mean = sum(seen) / len(seen)
        assert mean == pytest.approx(true_mean)
        assert variance == pytest.approx(sum(each * each for each in seen) / len(seen) - true_mean**2)


def test_random_orders_are_rarely_called_a_succession() -> None:
    rng = random.Random(5)
    few = 0
    for seed in range(60):
        sequences = [rng.sample("abcd", 4) for _ in range(15)]
        candidates = [("a", "b"), ("c", "d"), ("d", "a")]
        few += min(max_t(sequences, candidates, num_permutations=199, seed=seed).values()) <= 0.05
    assert few <= 9  # 3 are expected; 10 or more have a chance of 0.1 %


def test_what_always_follows_has_the_smallest_p_there_is_and_the_same_each_time() -> None:
    sequences = [["x", "a", "b"], ["a", "b", "x"]] * 20
    first = max_t(sequences, [("a", "b"), ("x", "a")], num_permutations=199)
    assert first[("a", "b")] == pytest.approx(1 / 200)
    assert first[("x", "a")] > 0.05
    assert max_t(sequences, [("a", "b"), ("x", "a")], num_permutations=199) == first


def test_no_sequences_no_p() -> None:
    assert max_t([], [("a", "b")])[("a", "b")] == 1.0
