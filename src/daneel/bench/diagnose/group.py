"""What the runs of one harness have in common, gathered as they go by: counts, and values by goal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Evidence, Finding, Gain, trials_needed
from daneel.bench.lint.tokens import TokenCounter

ALPHA = 0.05
"""Chance that a harness without any fault gets a finding from the tests, all of them together."""
NUM_TESTED_KINDS = 7
"""Kinds of findings that rest on a test: each has an equal part of `ALPHA`, and divides that among its hypotheses."""
KIND_ALPHA = ALPHA / NUM_TESTED_KINDS
MAX_EVIDENCE = 5


@dataclass(slots=True)
class Tally:
    """Scored trials: how many, how many of them achieved the goal, and their values' sum."""

    num: int = 0
    achieved: int = 0
    total: float = 0.0

    def add(self, other: Tally) -> None:
        self.num += other.num
        self.achieved += other.achieved
        self.total += other.total

    @property
    def mean(self) -> float:
        return self.total / self.num if self.num else 0.0


@dataclass
class Group:
    """One harness. `by_goal`: for each goal, the scored trials by which tools gave something in them."""

    harness: str
    harness_hash: str
    declarations: list[dict[str, Any]]
    names: tuple[str, ...]
    counter: TokenCounter
    num_runs: int = 0
    num_left_out: int = 0
    num_scored: int = 0
    unreadable: int = 0
    by_goal: dict[str, dict[frozenset[str], Tally]] = field(default_factory=dict)
    shown_turns: dict[str, int] = field(default_factory=dict)
    shown_runs: dict[str, int] = field(default_factory=dict)
    called_runs: dict[str, int] = field(default_factory=dict)
    some_runs: list[Evidence] = field(default_factory=list)
    failed_without: dict[str, list[Evidence]] = field(default_factory=dict)
    """For each tool, trials that missed their goal and had no good call of it."""
    _squares: dict[str, float] = field(default_factory=dict)

    def add(self, run: RunView) -> None:
        self.num_runs += 1
        self.unreadable += run.unreadable
        for name, turns in run.shown.items():
            self.shown_turns[name] = self.shown_turns.get(name, 0) + turns
            self.shown_runs[name] = self.shown_runs.get(name, 0) + 1
        for name in {call.name for call in run.calls}:
            self.called_runs[name] = self.called_runs.get(name, 0) + 1
        if len(self.some_runs) < MAX_EVIDENCE:
            self.some_runs.append(Evidence(run.id, 1))
        if run.scored:
            self.num_scored += 1
            value = run.value()
            tally = self.by_goal.setdefault(run.goal, {}).setdefault(run.used, Tally())
            tally.add(Tally(1, int(bool(run.achieved)), value))
            if not run.achieved:
                for name in self.names:
                    kept = self.failed_without.setdefault(name, [])
                    if name not in run.used and len(kept) < MAX_EVIDENCE:
                        kept.append(Evidence(run.id, 1))
            self._squares[run.goal] = self._squares.get(run.goal, 0.0) + value * value

    @property
    def sd_of_pair(self) -> float | None:
        """Standard deviation of D for two trials of the same goal, were they independent; None where trials are too few."""
        spread, degrees = 0.0, 0
        for goal, used in self.by_goal.items():
            num = sum(tally.num for tally in used.values())
            total = sum(tally.total for tally in used.values())
            spread += self._squares[goal] - total * total / num
            degrees += num - 1
        return math.sqrt(2 * max(0.0, spread) / degrees) if degrees >= 5 else None

    def with_and_without(self, tools: Sequence[str]) -> tuple[Tally, Tally]:
        """Scored trials in which all of these tools gave something, and the others."""
        wanted, having, lacking = set(tools), Tally(), Tally()
        for used in self.by_goal.values():
            for names, tally in used.items():
                (having if wanted <= names else lacking).add(tally)
        return having, lacking

    def gain_if_used(self, tools: Sequence[str]) -> Gain:
        """What there is to gain if these tools were used in every trial as in those that used them."""
        having, lacking = self.with_and_without(tools)
        names = " and ".join(tools)
        if not having.num or not lacking.num:
            which = f"every scored trial used {names}" if having.num else f"no scored trial used {names}"
            return Gain(None, f"cannot be told from these trials: {which}" if self.num_scored else "no scored trials")
        gain = max(0.0, lacking.num / self.num_scored * (having.mean - lacking.mean))
        how = f"if the {lacking.num} trials without a good call of {names} (E {lacking.mean:.2f}) became like the {having.num}"
        return Gain(round(gain, 4), f"{how} with one (E {having.mean:.2f}); at most, as more may differ between them")

    def finding(self, kind: str, tools: Sequence[str], text: str, advice: str, gain: Gain, **more: Any) -> Finding:
        """A finding about this harness, with the trials that it takes to test it."""
        data = {**more.pop("data", {}), "harness_hash": self.harness_hash}
        needed = trials_needed(gain.value, self.sd_of_pair)
        return Finding(
            kind=kind,
            harness=self.harness,
            tools=tuple(tools),
            text=text,
            advice=advice,
            expected_gain=gain,
            trials_needed=needed,
            data=data,
            **more,
        )


class Collector(Protocol):
    """Watches the runs of one harness go by, and says in the end what it has found."""

    def add(self, run: RunView) -> None: ...

    def findings(self, group: Group) -> Iterator[Finding]: ...


@dataclass
class Cost:
    """What one thing cost: in how many runs it was, how many turns it took, and how much E there is in saving these."""

    runs: int = 0
    times: int = 0
    turns: int = 0
    gained: float = 0.0
    evidence: list[Evidence] = field(default_factory=list)

    def add(self, run: RunView, indexes: Sequence[int]) -> None:
        """The calls with these indexes would not have been needed in `run`."""
        chosen = set(indexes)
        saved = run.turns_of(chosen)
        self.runs += 1
        self.times += len(chosen)
        self.turns += saved
        if run.achieved:
            self.gained += run.value(saved) - run.value()
        if len(self.evidence) < MAX_EVIDENCE:
            self.evidence.append(Evidence(run.id, run.calls[min(chosen)].turn))

    def gain(self, group: Group) -> Gain:
        """The mean over all scored trials; trials that did not achieve their goal count as unchanged."""
        if not group.num_scored:
            return Gain(None, f"no scored trials; it took {self.turns} turns in {self.runs} runs")
        how = f"if the {self.turns} turns it took in {self.runs} runs were saved, and what failed still failed"
        return Gain(round(self.gained / group.num_scored, 4), how)
