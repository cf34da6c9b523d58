"""Tool names between which the model hesitates: where the server gave log-probabilities, how close the other name came."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from daneel.bench.diagnose.group import MAX_EVIDENCE, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Evidence, Finding

CLOSE_NATS = math.log(4)
"""The other name has a fifth of the chance of both: about a wrong call in five, when sampling at temperature 1."""
MIN_CALLS = 10


@dataclass
class _Margin:
    num: int = 0
    total: float = 0.0
    evidence: list[Evidence] = field(default_factory=list)


class Margins:
    """`ambiguity`, from the log-probabilities at the first token where two names differ."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._of: dict[tuple[str, str], _Margin] = {}

    def add(self, run: RunView) -> None:
        for name in {(turn, called) for turn, called, _, _ in run.margins}:
            self._calls[name[1]] = self._calls.get(name[1], 0) + 1
        for turn, called, other, margin in run.margins:
            held = self._of.setdefault((called, other), _Margin())
            held.num += 1
            held.total += margin
            if margin < CLOSE_NATS and len(held.evidence) < MAX_EVIDENCE:
                held.evidence.append(Evidence(run.id, turn))

    def findings(self, group: Group) -> Iterator[Finding]:
        for (called, other), margin in self._of.items():
            # where the other name was not among the alternatives at all, it was far behind
            seen_share = margin.num / max(1, self._calls[called])
            mean = margin.total / margin.num
            if margin.num < MIN_CALLS or seen_share < 0.5 or mean >= CLOSE_NATS:
                continue
            share = 1 / (1 + math.exp(mean))
            text = (
                f"the model hesitates between {called} and {other}: at the first token where the names differ, {other} came "
                f"within {mean:.2f} nats in the mean of {margin.num} calls (that is {share:.0%} for {other})."
            )
            advice = "Give them names that differ in their first word, or merge them."
            data = {"way": "logprobs", "mean_margin_nats": mean, "calls": margin.num}
            gain = group.gain_if_used([called])
            yield group.finding("ambiguity", [called, other], text, advice, gain, evidence=tuple(margin.evidence), data=data)
