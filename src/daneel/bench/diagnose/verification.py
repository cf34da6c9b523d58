"""Calls that brought nothing new: a fact asked again from another tool, the same call made again, a read after each write."""

from __future__ import annotations

from collections.abc import Iterator

from daneel.bench.diagnose.exact import binomial_tail
from daneel.bench.diagnose.group import KIND_ALPHA, Cost, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Finding

BY_CHANCE = 0.1
"""Share of the runs with both tools in which a verification may happen without its meaning anything."""
LOOK_BACK = 30
"""So many calls before it are looked at for the same fact."""
MIN_COMMON_CHARS = 8
"""A result without figures is the same fact if it stands whole in another, and is at least so long."""

Key = tuple[str, str, str]
"""How (`fact`, `again`, `after_write`), the tool that was asked in vain, and the one that had said it (or written) before."""


class Verification:
    """`verification`."""

    def __init__(self) -> None:
        self._cost: dict[Key, Cost] = {}
        self._with: dict[tuple[str, ...], int] = {}

    def add(self, run: RunView) -> None:
        found: dict[Key, list[int]] = {}
        names = sorted({call.name for call in run.made})
        for index, call in enumerate(run.calls):
            if call.result is None or call.failed or call.is_empty or call.changes:
                continue
            if call.name in run.repeating:
                continue
            key = verifies(run, index)
            if key is not None:
                found.setdefault(key, []).append(index)
        for name in names:
            self._with[name,] = self._with.get((name,), 0) + 1
        for pair in {(key[1], key[2]) for key in found}:
            self._cost_of(run, pair, found)

    def _cost_of(self, run: RunView, pair: tuple[str, str], found: dict[Key, list[int]]) -> None:
        for how in ("fact", "again", "after_write"):
            if indexes := found.get((how, *pair)):
                self._cost.setdefault((how, *pair), Cost()).add(run, indexes)

    def findings(self, group: Group) -> Iterator[Finding]:
        num_tests = max(1, 3 * len(self._with) ** 2)
        for key, cost in self._cost.items():
            how, asked, before = key
            # runs that could have had it are at most those that have both tools
            possible = min(self._with.get((asked,), 0), self._with.get((before,), 0))
            p = binomial_tail(cost.runs, possible, BY_CHANCE) * num_tests
            if p > KIND_ALPHA:
                continue
            said = {
                "fact": f"{asked} was asked for what {before} had said already",
                "again": f"{asked} was called again with the same arguments, and said the same, after {before}",
                "after_write": f"{asked} was called to look at what {before} had just done",
            }[how]
            text = f"{said}: in {cost.runs} of {possible} runs with both, {cost.times} calls, which took {cost.turns} turns."
            advice = {
                "fact": f"Make the two say the same in the same form, or let one tool give both; or drop {asked}.",
                "again": f"Look for what {before} says that makes the model doubt {asked}; make the two agree.",
                "after_write": f"Let {before} say what it did, so that nobody need look: show the changed part in its result.",
            }[how]
            data = {"way": how, "runs": cost.runs, "possible_runs": possible, "calls": cost.times, "turns": cost.turns}
            yield group.finding(
                "verification", [asked, before], text, advice, cost.gain(group), p=p, evidence=tuple(cost.evidence), data=data
            )


def verifies(run: RunView, index: int) -> Key | None:
    """Whether the run's call with this index brought nothing new, and how; only the run's calls are looked at."""
    call = run.calls[index]
    between: str | None = None
    for place in range(index - 1, max(-1, index - 1 - LOOK_BACK), -1):
        earlier = run.calls[place]
        if earlier.result is None or earlier.failed:
            continue
        if earlier.changes:
            wrote = earlier.turn < call.turn and not run.values[place].isdisjoint(run.values[index])
            return ("after_write", call.name, earlier.name) if wrote else None
        if earlier.turn == call.turn:
            continue
        if earlier.name == call.name:
            if between is not None and earlier.arguments == call.arguments and earlier.result == call.result:
                return "again", call.name, between
            continue
        between = between or earlier.name
        if _same_fact(run, index, place):
            return "fact", call.name, earlier.name
    return None


def _same_fact(run: RunView, index: int, place: int) -> bool:
    """Whether all that a call brought stood in the earlier result; not where it follows up on something that stood there."""
    said, before = run.result_facts[index], run.calls[place].result or ""
    if said:
        same = said <= run.result_facts[place]
    else:
        text = (run.calls[index].result or "").strip()
        same = len(text) >= MIN_COMMON_CHARS and text in before
    return same and not any(value in before for value in run.values[index])
