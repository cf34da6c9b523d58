"""Tools that were never shown, never called, or always failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from daneel.bench.diagnose.exact import binomial_tail
from daneel.bench.diagnose.group import KIND_ALPHA, Cost, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Finding, Gain

RARE_RATE = 0.2
"""A tool that is called in this share of runs, or more, is not to be taken for one that is never called."""
OFTEN_RIGHT = 0.5
"""A tool that works this often, or more, is not to be taken for one that always fails."""
GATE_PROBLEMS = frozenset({"gated", "call_limit", "not_allowed"})
"""Calls that were refused for when they came, not for how they were written."""


class Usage:
    """`never_shown`, `never_called`, `always_failing`."""

    def __init__(self) -> None:
        self._called: Counter[str] = Counter()
        self._worked: Counter[str] = Counter()
        self._cost: dict[str, Cost] = {}
        self._errors: dict[str, Counter[str]] = {}

    def add(self, run: RunView) -> None:
        failing: dict[str, list[int]] = {}
        for index, call in enumerate(run.calls):
            if call.problem in GATE_PROBLEMS:
                continue
            self._called[call.name] += 1
            if not call.failed:
                self._worked[call.name] += 1
            elif self._worked[call.name] == 0:
                failing.setdefault(call.name, []).append(index)
                said = (call.error or call.result or "")[:200]
                kinds = self._errors.setdefault(call.name, Counter())
                if len(kinds) < 50:
                    kinds[said] += 1
        for name, indexes in failing.items():
            self._cost.setdefault(name, Cost()).add(run, indexes)

    def findings(self, group: Group) -> Iterator[Finding]:
        names = group.names
        for position, name in enumerate(names):
            shown = group.shown_runs.get(name, 0)
            if not shown:
                p = (1 - RARE_RATE) ** group.num_runs * len(names)
                if p <= KIND_ALPHA:
                    yield self._never_shown(group, name, p)
            elif not self._called[name] and not group.called_runs.get(name):
                p = (1 - RARE_RATE) ** shown * len(names)
                if p <= KIND_ALPHA:
                    yield self._never_called(group, name, position, p)
            elif not self._worked[name] and self._called[name]:
                p = binomial_tail(self._called[name], self._called[name], 1 - OFTEN_RIGHT) * len(names)
                if p <= KIND_ALPHA:
                    yield self._always_failing(group, name, p)

    def _never_shown(self, group: Group, name: str, p: float) -> Finding:
        text = f"{name} was never shown to the model in {group.num_runs} runs: its gate never opened."
        advice = "Open its gate earlier, or drop the tool."
        gain = Gain(None, "what a tool would have been good for cannot be told from runs that did not have it")
        return group.finding("never_shown", [name], text, advice, gain, p=p, evidence=tuple(group.some_runs))

    def _never_called(self, group: Group, name: str, position: int, p: float) -> Finding:
        tokens = group.counter.declaration(group.declarations[position])
        shown, turns = group.shown_runs[name], group.shown_turns[name]
        text = (
            f"{name} was shown in {turns} turns of {shown} runs and never called. Its declaration took {tokens} tokens of each "
            f"prompt, {tokens * turns} in all ({group.counter.how})."
        )
        advice = "Drop it, if these goals are what the harness is for; or say in its name and description when to call it."
        gain = Gain(0.0, "dropping it saves tokens, and no turns that could be counted: test that the harness is no worse")
        data = {"declaration_tokens": tokens, "shown_turns": turns, "total_tokens": tokens * turns}
        return group.finding("never_called", [name], text, advice, gain, p=p, evidence=tuple(group.some_runs), data=data)

    def _always_failing(self, group: Group, name: str, p: float) -> Finding:
        cost = self._cost[name]
        said = self._errors[name].most_common(1)[0][0]
        text = f"{name} was called {self._called[name]} times in {cost.runs} runs, and failed every time; mostly: {said}"
        advice = "Repair it, say in its description how it is to be called, or drop it."
        data = {"calls": self._called[name], "turns": cost.turns, "error": said}
        return group.finding(
            "always_failing", [name], text, advice, cost.gain(group), p=p, evidence=tuple(cost.evidence), data=data
        )
