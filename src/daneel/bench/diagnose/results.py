"""Results that are long and hardly used, or formal where a sentence would do."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from daneel.bench.diagnose.group import KIND_ALPHA, MAX_EVIDENCE, Group
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Evidence, Finding, Gain

LONG_CHARS = 1_000
LITTLE_USED = 0.15
MIN_CALLS = 10
FORMAL_CHARS = 600
"""A longer JSON result is a table, which no sentence replaces."""
MAX_LEAVES = 8
FORMAL_SHARE = 0.9
"""Share of a tool's results that are JSON objects, for it to be called formal."""


@dataclass
class _Results:
    """The results of one tool that worked: their number, length, and share used (its mean and sum of squared deviations)."""

    num: int = 0
    chars: int = 0
    tokens_sample: list[str] = field(default_factory=list)
    formal: int = 0
    mean_used: float = 0.0
    squares: float = 0.0
    evidence: list[Evidence] = field(default_factory=list)

    def add(self, run: RunView, turn: int, text: str, used: float) -> None:
        self.num += 1
        self.chars += len(text)
        apart = used - self.mean_used
        self.mean_used += apart / self.num
        self.squares += apart * (used - self.mean_used)
        self.formal += is_formal(text)
        if len(self.evidence) < MAX_EVIDENCE:
            self.evidence.append(Evidence(run.id, turn))
            self.tokens_sample.append(text[:20_000])

    @property
    def mean_chars(self) -> float:
        return self.chars / self.num

    def p_used_more(self, share: float) -> float:
        """The p-value of "at least this share of a result is used in the mean": z-test, its variance estimated."""
        if self.num < 2 or self.mean_used >= share:
            return 1.0
        error = math.sqrt(self.squares / (self.num - 1) / self.num)
        return 1 - NormalDist().cdf((share - self.mean_used) / error) if error > 0 else 0.0


def is_formal(text: str) -> bool:
    """Whether a result is a short JSON object with a few values: what a sentence can say."""
    stripped = text.strip()
    if not stripped.startswith("{") or not stripped.endswith("}") or len(stripped) > FORMAL_CHARS:
        return False
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return 0 < _leaves(value) <= MAX_LEAVES


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_leaves, value.values()))
    return sum(map(_leaves, value)) if isinstance(value, list) else 1


class Results:
    """`long_result`, `formal_result`."""

    def __init__(self) -> None:
        self._of: dict[str, _Results] = {}

    def add(self, run: RunView) -> None:
        for call, used in zip(run.calls, run.used_shares, strict=True):
            if call.result is not None and not call.failed and not call.is_empty:
                self._of.setdefault(call.name, _Results()).add(run, call.turn, call.result, used)

    def findings(self, group: Group) -> Iterator[Finding]:
        for name, results in self._of.items():
            if results.num < MIN_CALLS:
                continue
            if results.mean_chars >= LONG_CHARS:
                p = results.p_used_more(LITTLE_USED) * len(self._of)
                if p <= KIND_ALPHA:
                    yield self._long(group, name, results, p)
            elif results.formal >= FORMAL_SHARE * results.num:
                yield self._formal(group, name, results)

    def _long(self, group: Group, name: str, results: _Results, p: float) -> Finding:
        sample = results.tokens_sample
        tokens = round(sum(map(group.counter.count, sample)) / len(sample))
        text = (
            f"{name} gives long results: {results.mean_chars:.0f} characters in the mean, about {tokens} tokens "
            f"({group.counter.how}), of which later arguments and the answer used {results.mean_used:.0%} of the words "
            f"({results.num} calls)."
        )
        gain = Gain(0.0, "a shorter result saves tokens, and no turns that could be counted: test that the harness is no worse")
        data = {"mean_chars": results.mean_chars, "mean_tokens": tokens, "used_share": results.mean_used, "calls": results.num}
        return group.finding(
            "long_result",
            [name],
            text,
            "Give only what is asked for; give the rest on request, by an argument.",
            gain,
            p=p,
            evidence=tuple(results.evidence),
            data=data,
        )

    def _formal(self, group: Group, name: str, results: _Results) -> Finding:
        example = results.tokens_sample[0].strip()
        text = (
            f"{name} answers in JSON where a sentence would do ({results.formal} of {results.num} results), as "
            f"{example[:160]}{'…' if len(example) > 160 else ''}; used of it: {results.mean_used:.0%} of the words."
        )
        gain = Gain(None, "small models often do better with sentences; how much cannot be told from these trials")
        data = {"example": example, "used_share": results.mean_used, "calls": results.num}
        return group.finding(
            "formal_result",
            [name],
            text,
            '@tool(render="…{result}…") says it as a sentence.',
            gain,
            evidence=tuple(results.evidence),
            data=data,
        )
