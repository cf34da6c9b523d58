"""B comes right behind A, far more often than chance, and takes an argument from A's result: one tool could do both.

The test is a permutation test: under the hypothesis, the order of a run's calls says nothing, so that every order of the same
calls is as likely. The statistic is the number of times that B follows A, over all runs, in standard deviations from its
expected value; and because every pair of tools is looked at, it is compared with the largest of all pairs in each permutation
(P. H. Westfall, S. S. Young, "Resampling-based multiple testing", 1993, single-step maxT). So p needs no further correction.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from daneel.bench.diagnose.group import KIND_ALPHA, Cost, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Finding

NUM_PERMUTATIONS = 999
MAX_CALLS = 2_500
"""So many calls of the first runs are permuted: enough for any p that counts, and a few seconds of work at most."""
BESAG_CLIFFORD = 10
"""With so many permutations at least as extreme, p is large, and no more are made."""
MIN_SHARE = 0.7
"""This share of A's good calls is followed by B, and of B's this share follows A; else merging them loses something."""
MIN_TAKEN = 0.5
"""Of these, this share takes a value from A's result."""

MAX_VALUE_CHARS = 500

Pair = tuple[str, str]


class Succession:
    """`succession`."""

    def __init__(self) -> None:
        self._sequences: list[list[str]] = []
        self._num_kept = 0
        self._calls: Counter[str] = Counter()
        self._follows: Counter[Pair] = Counter()
        self._takes: Counter[Pair] = Counter()
        self._cost: dict[Pair, Cost] = {}

    def add(self, run: RunView) -> None:
        good = [index for index, call in enumerate(run.calls) if not call.failed]
        names = [run.calls[index].name for index in good]
        self._calls.update(names)
        if len(good) < 2:
            return
        if self._num_kept < MAX_CALLS:
            self._sequences.append(names)
            self._num_kept += len(good)
        taken: dict[Pair, list[int]] = {}
        for first, second in pairwise(good):
            pair = run.calls[first].name, run.calls[second].name
            if pair[0] != pair[1]:
                self._follows[pair] += 1
                if _takes(run, first, second):
                    self._takes[pair] += 1
                    taken.setdefault(pair, []).append(second)
        for pair, indexes in taken.items():
            self._cost.setdefault(pair, Cost()).add(run, indexes)

    def findings(self, group: Group) -> Iterator[Finding]:
        candidates = [pair for pair in self._takes if self._is_close(pair)]
        if not candidates:
            return
        for pair, p in max_t(self._sequences, candidates).items():
            if p <= KIND_ALPHA:
                yield self._finding(group, pair, p)

    def _is_close(self, pair: Pair) -> bool:
        follows, takes = self._follows[pair], self._takes[pair]
        fewest = max(self._calls[pair[0]], self._calls[pair[1]])
        return follows >= MIN_SHARE * fewest and takes >= MIN_TAKEN * follows

    def _finding(self, group: Group, pair: Pair, p: float) -> Finding:
        a, b = pair
        follows, takes, cost = self._follows[pair], self._takes[pair], self._cost[pair]
        text = (
            f"{b} comes right behind {a}: {follows} times, of {self._calls[a]} calls of {a} and {self._calls[b]} of {b}; "
            f"{takes} times with a value that stands in {a}'s result (permutation p {p:.3f})."
        )
        data = {"follows": follows, "takes": takes, "calls": [self._calls[a], self._calls[b]], "turns": cost.turns}
        advice = f"Merge them: let {a} give what {b} would."
        return group.finding(
            "succession", [a, b], text, advice, cost.gain(group), p=p, evidence=tuple(cost.evidence), data=data
        )


def _takes(run: RunView, first: int, second: int) -> bool:
    """Whether an argument of the second call stands in the first one's result, and was not known before."""
    said = run.calls[first].result
    if run.calls[second].turn <= run.calls[first].turn or not said:
        return False
    new = (value for value in run.values[second] if value not in run.values[first] and len(value) < MAX_VALUE_CHARS)
    return any(value in said and value not in run.prompt for value in new)


def max_t(
    sequences: Sequence[Sequence[str]], candidates: Sequence[Pair], *, num_permutations: int = NUM_PERMUTATIONS, seed: int = 0
) -> dict[Pair, float]:
    """For each candidate the adjusted p-value of "the order within the sequences says nothing". Deterministic by its seed."""
    moments = _moments(sequences)
    observed = Counter(pair for names in sequences for pair in pairwise(names))
    scores = {pair: _score(observed[pair], moments.get(pair)) for pair in candidates}
    exceeded = dict.fromkeys(candidates, 1)
    shuffled = [list(names) for names in sequences]
    shuffle = random.Random(seed).shuffle
    made = 1
    while made <= num_permutations and min(exceeded.values()) <= BESAG_CLIFFORD:
        counts: Counter[Pair] = Counter()
        for names in shuffled:
            shuffle(names)
            counts.update(pairwise(names))
        largest = max((_score(count, moments.get(pair)) for pair, count in counts.items()), default=0.0)
        for pair, score in scores.items():
            exceeded[pair] += largest >= score
        made += 1
    return {pair: exceeded[pair] / made for pair in candidates}


def _moments(sequences: Sequence[Sequence[str]]) -> dict[Pair, tuple[float, float]]:
    """Mean and variance of how often B follows A when each sequence is in random order, A and B being different.

    With a and b calls among n: each of the n-1 neighbouring places is (A, B) with probability ab/n(n-1), so the mean is ab/n.
    E[X(X-1)] sums over pairs of places that may both be (A, B), which do not touch: (n-2)(n-3) of them, each with probability
    a(a-1)b(b-1)/n(n-1)(n-2)(n-3).
    """
    moments: dict[Pair, tuple[float, float]] = {}
    for names in sequences:
        counts, n = Counter(names), len(names)
        for first, a in counts.items():
            for second, b in counts.items():
                if first != second:
                    mean = a * b / n
                    twice = a * (a - 1) * b * (b - 1) / (n * (n - 1)) if n > 1 else 0.0
                    before = moments.get((first, second), (0.0, 0.0))
                    moments[first, second] = before[0] + mean, before[1] + twice + mean - mean * mean
    return moments


def _score(count: int, moments: tuple[float, float] | None) -> float:
    if moments is None:
        return 0.0
    mean, variance = moments
    return (count - mean) / math.sqrt(variance) if variance > 1e-12 else 0.0
