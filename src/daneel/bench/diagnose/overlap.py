"""Tools that stand in for each other: a goal reached through one or the other, or one tried after the other brought nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise

from daneel.bench.diagnose.exact import binomial_tail, rarely_together
from daneel.bench.diagnose.group import KIND_ALPHA, MAX_EVIDENCE, Cost, Group, Tally
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Evidence, Finding, Gain

MIN_EACH_WAY = 3
"""Achieved trials that must have gone each of the two ways."""
BY_CHANCE = 0.1
"""Share of failed calls that may be followed by another tool with the same values without its meaning anything."""
MAX_PATHS = 500


class Alternatives:
    """`overlap`: among the trials that achieved a goal, those that used A did without B, and the other way round."""

    def __init__(self) -> None:
        self._paths: dict[frozenset[str], Evidence] = {}

    def add(self, run: RunView) -> None:
        if run.achieved and run.calls and run.used not in self._paths and len(self._paths) < MAX_PATHS:
            self._paths[run.used] = Evidence(run.id, run.calls[0].turn)

    def findings(self, group: Group) -> Iterator[Finding]:
        pairs = []
        for a, b in combinations(group.names, 2):
            tables = [_table(used, a, b) for used in group.by_goal.values()]
            tables = [table for table in tables if table[1] > table[3] and table[2] > table[3]]
            only_a, only_b = sum(t[1] - t[3] for t in tables), sum(t[2] - t[3] for t in tables)
            if tables and only_a + only_b:
                pairs.append((a, b, tables, only_a, only_b))
        for a, b, tables, only_a, only_b in pairs:
            if min(only_a, only_b) >= MIN_EACH_WAY:
                p = rarely_together(tables) * len(pairs)
                if p <= KIND_ALPHA:
                    yield self._finding(group, a, b, p)

    def _finding(self, group: Group, a: str, b: str, p: float) -> Finding:
        through_a, through_b = Tally(), Tally()
        goals = []
        for goal, used in group.by_goal.items():
            _, with_a, with_b, both = _table(used, a, b)
            if with_a > both and with_b > both:
                goals.append(goal)
                for names, tally in used.items():
                    if (a in names) != (b in names):
                        (through_a if a in names else through_b).add(tally)
        better, worse = (a, b) if through_a.mean >= through_b.mean else (b, a)
        apart = abs(through_a.mean - through_b.mean)
        num_worse = through_b.num if worse == b else through_a.num
        gain = Gain(
            round(apart * num_worse / max(1, group.num_scored), 4),
            f"if the {num_worse} trials that went through {worse} had gone through {better}, at the "
            f"difference in E of {apart:.2f}; at most, as more may differ between them",
        )
        text = (
            f"{a} and {b} stand in for each other: of the trials on {', '.join(goals[:3])}{' …' if len(goals) > 3 else ''} "
            f"{through_a.num} went through {a} alone (E {through_a.mean:.2f}) and {through_b.num} through {b} alone "
            f"(E {through_b.mean:.2f})."
        )
        evidence = [where for names, where in self._paths.items() if (a in names) != (b in names)]
        data = {"way": "alternatives", "goals": goals, "keep": better, "through": {a: through_a.num, b: through_b.num}}
        advice = f"Keep {better}, drop {worse}; or merge them."
        return group.finding(
            "overlap", [worse, better], text, advice, gain, p=p, evidence=tuple(evidence[:MAX_EVIDENCE]), data=data
        )


def _table(used: dict[frozenset[str], Tally], a: str, b: str) -> tuple[int, int, int, int]:
    """Achieved trials of one goal: all, with A, with B, with both."""
    total = with_a = with_b = both = 0
    for names, tally in used.items():
        total += tally.achieved
        with_a += tally.achieved if a in names else 0
        with_b += tally.achieved if b in names else 0
        both += tally.achieved if a in names and b in names else 0
    return total, with_a, with_b, both


class Retries:
    """`overlap`, too: A failed or found nothing, and the next call was of B, with the same values."""

    def __init__(self) -> None:
        self._barren: Counter[str] = Counter()
        self._cost: dict[tuple[str, str], Cost] = {}
        self._times: Counter[tuple[str, str]] = Counter()

    def add(self, run: RunView) -> None:
        found: dict[tuple[str, str], list[int]] = {}
        for index, (call, later) in enumerate(pairwise(run.calls)):
            if call.changes or call.problem is not None or not (call.failed or call.is_empty):
                continue
            self._barren[call.name] += 1
            if later.name == call.name or later.changes or later.failed or later.is_empty:
                continue
            if (values := call.values) and values == later.values:
                found.setdefault((call.name, later.name), []).append(index)
                self._times[call.name, later.name] += 1
        for pair, indexes in found.items():
            self._cost.setdefault(pair, Cost()).add(run, indexes)

    def findings(self, group: Group) -> Iterator[Finding]:
        num_tests = len(self._barren) * max(1, len(group.names) - 1)
        for (a, b), cost in self._cost.items():
            times, barren = self._times[a, b], self._barren[a]
            p = binomial_tail(times, barren, BY_CHANCE) * num_tests
            if p <= KIND_ALPHA:
                text = (
                    f"{a} failed or found nothing {barren} times; {times} times the next call was {b} with the same values, "
                    "and that one worked."
                )
                advice = f"Let {a} do what {b} does when it finds nothing, or drop {a}."
                data = {"way": "retry", "barren": barren, "times": times, "turns": cost.turns}
                yield group.finding(
                    "overlap", [a, b], text, advice, cost.gain(group), p=p, evidence=tuple(cost.evidence), data=data
                )
