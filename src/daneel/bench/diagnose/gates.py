"""Gates worth trying: a tool that was never of use before another one had been called, and often was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from daneel.bench.diagnose.exact import more_often_in_first
from daneel.bench.diagnose.group import KIND_ALPHA, Cost, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Finding

MAX_USEFUL_BEFORE = 0.0
"""Share of the calls before the gate that may have been of use: a gate forbids them."""


@dataclass
class _Sides:
    """Calls of B after a call of A that worked, and before any: (of use, all)."""

    after: list[int] = field(default_factory=lambda: [0, 0])
    before: list[int] = field(default_factory=lambda: [0, 0])
    cost: Cost = field(default_factory=Cost)


class Gates:
    """`gate`."""

    def __init__(self) -> None:
        self._sides: dict[tuple[str, str], _Sides] = {}

    def add(self, run: RunView) -> None:
        called: set[str] = set()
        wasted: dict[tuple[str, str], list[int]] = {}
        for index, (call, useful) in enumerate(zip(run.calls, run.was_useful, strict=True)):
            if call.problem is None:
                for other in run.names:
                    if other == call.name:
                        continue
                    sides = self._sides.setdefault((call.name, other), _Sides())
                    side = sides.after if other in called else sides.before
                    side[0] += useful
                    side[1] += 1
                    if other not in called and not useful:
                        wasted.setdefault((call.name, other), []).append(index)
            if not call.failed:
                called.add(call.name)
        for pair, indexes in wasted.items():
            self._sides[pair].cost.add(run, indexes)

    def findings(self, group: Group) -> Iterator[Finding]:
        tested = {pair: sides for pair, sides in self._sides.items() if sides.before[1] and sides.after[1]}
        best: dict[str, tuple[float, str]] = {}
        for (tool, other), sides in tested.items():
            if sides.before[0] > MAX_USEFUL_BEFORE * sides.before[1] or not sides.after[0]:
                continue
            p = more_often_in_first((sides.after[0], sides.after[1]), (sides.before[0], sides.before[1])) * len(tested)
            if p <= KIND_ALPHA and p < best.get(tool, (2.0, ""))[0]:
                best[tool] = p, other
        for tool, (p, other) in best.items():
            yield self._finding(group, tool, other, p)

    def _finding(self, group: Group, tool: str, other: str, p: float) -> Finding:
        sides = self._sides[tool, other]
        text = (
            f"{tool} was called {sides.before[1]} times before {other} had been, and was never of use; afterwards it was "
            f"so in {sides.after[0]} of {sides.after[1]} calls."
        )
        advice = f'Gate it: @tool(requires="{other}") on {tool}.'
        data = {"requires": other, "before": sides.before, "after": sides.after, "turns": sides.cost.turns}
        return group.finding(
            "gate", [tool, other], text, advice, sides.cost.gain(group), p=p, evidence=tuple(sides.cost.evidence), data=data
        )
