"""Gates worth trying: a tool that was never of use before another one had been called, and often was afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from daneel.bench.diagnose.exact import more_often_in_first
from daneel.bench.diagnose.group import KIND_ALPHA, Cost, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Finding

Counts = list[int]
"""Calls: [of use, all]."""


class Gates:
    """`gate`."""

    def __init__(self) -> None:
        self._all: dict[str, Counts] = {}
        self._after: dict[str, dict[str, Counts]] = {}
        """For a tool and another one: the calls of the first that came after a good call of the second."""
        self._early: dict[str, Cost] = {}
        """Calls of a tool that were of no use, up to the first one that was."""

    def add(self, run: RunView) -> None:
        if run.scored and not run.achieved:
            return  # an answer that gives up uses nothing, whatever came first
        called: set[str] = set()
        was_of_use: set[str] = set()
        early: dict[str, list[int]] = {}
        for index, (call, useful) in enumerate(zip(run.calls, run.was_useful, strict=True)):
            if call.problem is None:
                after = self._after.setdefault(call.name, {})
                for other in called:
                    counts = after.get(other) or after.setdefault(other, [0, 0])
                    counts[0] += useful
                    counts[1] += 1
                counts = self._all.setdefault(call.name, [0, 0])
                counts[0] += useful
                counts[1] += 1
                if useful:
                    was_of_use.add(call.name)
                elif call.name not in was_of_use:
                    early.setdefault(call.name, []).append(index)
            if not call.failed:
                called.add(call.name)
        for name, indexes in early.items():
            self._early.setdefault(name, Cost()).add(run, indexes)

    def findings(self, group: Group) -> Iterator[Finding]:
        best: dict[str, tuple[float, str]] = {}
        tested = [
            (tool, other, after)
            for tool, others in self._after.items()
            for other, after in others.items()
            if other != tool and after[1] < self._all[tool][1]
        ]
        for tool, other, after in tested:
            total = self._all[tool]
            if not after[0] or after[0] < total[0]:
                continue  # a gate would forbid calls that were of use
            before = (0, total[1] - after[1])
            p = more_often_in_first((after[0], after[1]), before) * len(tested)
            if p <= KIND_ALPHA and p < best.get(tool, (2.0, ""))[0]:
                best[tool] = p, other
        for tool, (p, other) in best.items():
            yield self._finding(group, tool, other, p)

    def _finding(self, group: Group, tool: str, other: str, p: float) -> Finding:
        after = self._after[tool][other]
        num_before = self._all[tool][1] - after[1]
        cost = self._early[tool]
        text = (
            f"{tool} was called {num_before} times before {other} had been, and was never of use; afterwards it was so in "
            f"{after[0]} of {after[1]} calls."
        )
        advice = f'Gate it: @tool(requires="{other}") on {tool}.'
        data = {"requires": other, "before": [0, num_before], "after": after, "turns": cost.turns}
        evidence = tuple(cost.evidence)
        return group.finding("gate", [tool, other], text, advice, cost.gain(group), p=p, evidence=evidence, data=data)
