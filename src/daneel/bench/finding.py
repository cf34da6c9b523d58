"""A finding: something in a harness that may cost effectiveness, with its evidence and what it would take to test a change."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from daneel.bench.statistics.sample_size import pairs_needed

SMALLEST_GAIN = 0.02
"""Gains below this are no reason for a test of "better": the test is then whether the change is no worse by more than this."""
UNKNOWN_GAIN = 0.10
"""What a test is planned for where the trials say nothing of the gain."""
USUAL_SD = 0.35
"""Standard deviation of one pair's difference where there are no trials to take it from."""

KINDS = (
    "never_shown",
    "never_called",
    "always_failing",
    "overlap",
    "succession",
    "verification",
    "ambiguity",
    "description",
    "name",
    "long_result",
    "formal_result",
    "gate",
)


class Evidence(Struct, frozen=True):
    """One turn of one run, to look at."""

    run_id: str
    turn: int

    @property
    def command(self) -> str:
        return f"daneel transcripts show {self.run_id} --turn {self.turn}"


class Gain(Struct, frozen=True):
    """The gain in E to be expected, and how it was estimated. `value` is None where the trials say nothing of it."""

    value: float | None
    how: str


class Finding(Struct, frozen=True, kw_only=True):
    """One finding. `kind` is one of `KINDS`; `tools` names the tools concerned, the one to change or drop first.

    `p`: the p-value of the test behind it, already multiplied by the number of tests that were made of this kind; None where
    it is no matter of chance (a description that is empty). `trials_needed`: trials of both arms together, to test the change.
    """

    kind: str
    harness: str
    tools: tuple[str, ...]
    text: str
    advice: str
    evidence: tuple[Evidence, ...] = ()
    expected_gain: Gain = Gain(None, "no trials")
    trials_needed: int = 0
    p: float | None = None
    data: dict[str, Any] = field(default_factory=dict)


def trials_needed(gain: float | None, sd: float | None) -> int:
    """Trials of both arms to test a change that is expected to gain so much: twice the pairs of `daneel compare`.

    `sd` is that of one pair's difference; see `UNKNOWN_GAIN`, `SMALLEST_GAIN` and `USUAL_SD` for what is not known.
    """
    difference = UNKNOWN_GAIN if gain is None else max(gain, SMALLEST_GAIN)
    return 2 * pairs_needed(min(difference, 1.0), min(USUAL_SD if sd is None else sd, 1.0))
