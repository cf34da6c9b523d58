"""Tools that stand in for each other: a goal reached through one or the other, or one tried after the other brought nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from daneel.bench.diagnose.exact import binomial_tail, rarely_together
from daneel.bench.diagnose.group import KIND_ALPHA, MAX_EVIDENCE, Cost, Group, Tally
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Evidence, Finding, Gain

MIN_EACH_WAY = 3
"""Achieved trials that must have gone each way."""
MIN_EACH_SHARE = 0.1
"""And the share of them that must have."""
ONE_OF_THEM = 0.6
"""Two tools that are used independently of each other, each in half of the trials, come to one half."""
BY_CHANCE = 0.1
"""Share of failed calls that may be followed by another tool with the same values without its meaning anything."""
MAX_PATHS = 500


class Alternatives:
    """`overlap`: nearly every trial that achieved a goal went through exactly one of some tools, now this one, now that.

    Two conditions, both tested. The tools come together more rarely than chance (Fisher's exact test, by goal); that alone may
    also come from runs that have room for few calls. And exactly one of them is used in more than `ONE_OF_THEM` of the trials.
    """

    def __init__(self) -> None:
        self._paths: dict[frozenset[str], tuple[str, dict[str, int]]] = {}
        """For each set of tools used: a run of it, and the turn in which it called each of them."""

    def add(self, run: RunView) -> None:
        if run.achieved and run.used not in self._paths and len(self._paths) < MAX_PATHS:
            self._paths[run.used] = run.id, {call.name: call.turn for call in reversed(run.calls)}

    def findings(self, group: Group) -> Iterator[Finding]:
        pairs = _pairs(group)
        apart: dict[str, set[str]] = {}
        p_apart = 0.0
        for (a, b), tables in pairs.items():
            p = rarely_together(tables) * len(pairs)
            if p <= KIND_ALPHA:
                apart.setdefault(a, set()).add(b)
                apart.setdefault(b, set()).add(a)
                p_apart = max(p_apart, p)
        for tools in _cliques(apart):
            finding = self._finding(group, tools, p_apart, num_tests=len(pairs))
            if finding is not None:
                yield finding

    def _finding(self, group: Group, tools: Sequence[str], p_apart: float, *, num_tests: int) -> Finding | None:
        through = {name: Tally() for name in tools}
        goals, exactly, achieved = [], 0, 0
        for goal, used in group.by_goal.items():
            ways = {name: Tally() for name in tools}
            for names, tally in used.items():
                those = names & ways.keys()
                if len(those) == 1:
                    ways[min(those)].add(tally)
            if sum(tally.achieved > 0 for tally in ways.values()) < 2:
                continue
            goals.append(goal)
            exactly += sum(tally.achieved for tally in ways.values())
            achieved += sum(tally.achieved for tally in used.values())
            for name, tally in ways.items():
                through[name].add(tally)
        p = max(p_apart, binomial_tail(exactly, achieved, ONE_OF_THEM) * num_tests)
        fewest = min(tally.achieved for tally in through.values())
        if p > KIND_ALPHA or fewest < max(MIN_EACH_WAY, MIN_EACH_SHARE * achieved):
            return None
        best = max(tools, key=lambda name: through[name].mean)
        others = [name for name in sorted(tools, key=lambda name: through[name].mean) if name != best]
        lost = sum(through[name].num * (through[best].mean - through[name].mean) for name in others)
        gain = Gain(
            round(lost / max(1, group.num_scored), 4),
            f"if the {sum(through[name].num for name in others)} trials that went through {_listed(others)} had come to what "
            f"those through {best} did; at most, as more may differ between them",
        )
        ways_told = ", ".join(f"{through[name].num} through {name} (E {through[name].mean:.2f})" for name in [*others, best])
        text = (
            f"{_listed(tools)} stand in for each other: {exactly} of {achieved} trials that achieved {', '.join(goals[:3])}"
            f"{' …' if len(goals) > 3 else ''} used exactly one of them. Of all scored trials, {ways_told} alone."
        )
        paths = [(names & through.keys(), where) for names, where in self._paths.items()]
        evidence = [Evidence(run_id, turns[min(those)]) for those, (run_id, turns) in paths if len(those) == 1]
        counts = {name: tally.num for name, tally in through.items()}
        data = {"way": "alternatives", "goals": goals, "keep": best, "through": counts}
        advice = f"Keep {best}, drop {_listed(others)}; or merge them."
        evidence = evidence[:MAX_EVIDENCE]
        return group.finding("overlap", [*others, best], text, advice, gain, p=p, evidence=tuple(evidence), data=data)


def _cliques(apart: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Groups in which every tool is apart from every other: each pair, made as large as it can be."""
    groups: dict[frozenset[str], tuple[str, ...]] = {}
    for a, near in apart.items():
        for b in sorted(near):
            group = [a, b]
            for c in sorted(apart):
                if c not in group and all(c in apart[member] for member in group):
                    group.append(c)
            groups.setdefault(frozenset(group), tuple(sorted(group)))
    return list(groups.values())


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _pairs(group: Group) -> dict[tuple[str, str], list[tuple[int, int, int, int]]]:
    """For each two tools, by goal, achieved trials: all, with A, with B, with both; where each was used without the other."""
    found: dict[tuple[str, str], list[tuple[int, int, int, int]]] = {}
    place = {name: number for number, name in enumerate(group.names)}
    for used in group.by_goal.values():
        total, having, together = 0, Counter[str](), Counter[tuple[str, str]]()
        for names, tally in used.items():
            total += tally.achieved
            if tally.achieved:
                known = sorted((name for name in names if name in place), key=place.__getitem__)
                for name in known:
                    having[name] += tally.achieved
                for pair in combinations(known, 2):
                    together[pair] += tally.achieved
        for a, b in combinations([name for name in group.names if having[name]], 2):
            both = together[a, b]
            if having[a] > both and having[b] > both:
                found.setdefault((a, b), []).append((total, having[a], having[b], both))
    return found


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
            if run.values[index] and run.values[index] == run.values[index + 1]:
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
