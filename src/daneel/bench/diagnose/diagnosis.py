"""From stored runs to findings. Runs stream by; what is kept of them are counts, and a few places to look at.

    with RunReader() as reader:
        diagnosis = diagnose(reader.read(reader.select(["m_1234"])))
    for finding in diagnosis.findings: ...

Every finding that rests on chance is tested, and the tests are corrected for their number: a harness without any fault gets a
finding with a probability of at most `ALPHA`, all kinds together. No model judges anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from daneel.bench.diagnose.gates import Gates
from daneel.bench.diagnose.group import Collector, Group
from daneel.bench.diagnose.margins import Margins
from daneel.bench.diagnose.overlap import Alternatives, Retries
from daneel.bench.diagnose.results import Results
from daneel.bench.diagnose.succession import Succession
from daneel.bench.diagnose.usage import Usage
from daneel.bench.diagnose.verification import Verification
from daneel.bench.diagnose.view import RunView
from daneel.bench.finding import Finding
from daneel.bench.lint.checks import lint
from daneel.bench.lint.tokens import TokenCounter


class HarnessReport(Struct, frozen=True, kw_only=True):
    """What was read of one harness."""

    harness: str
    harness_hash: str
    tools: tuple[str, ...]
    num_runs: int
    num_left_out: int
    """Runs that were not looked at: invalid or cancelled ones, and those on held-out goals."""
    num_scored: int
    num_achieved: int
    effectiveness: float | None
    """E over its scored trials, all goals together; None where nothing was scored."""
    unreadable_events: int


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All findings, those with the largest expected gain first within each harness; and what they rest on."""

    harnesses: tuple[HarnessReport, ...]
    findings: tuple[Finding, ...]
    tokens: str
    """How tokens were counted."""


def diagnose(runs: Iterable[RunView], *, counter: TokenCounter | None = None, held_out: bool = False) -> Diagnosis:
    """Read runs, of any number of harnesses, and say what was found in each.

    Runs that were cut short by a failure or a person are left out, and so are those on held-out goals unless `held_out`: what
    they say would no longer confirm anything.
    """
    counter = counter or TokenCounter()
    groups: dict[tuple[str, str], tuple[Group, list[Collector]]] = {}
    for run in runs:
        key = run.harness, run.harness_hash
        if key not in groups:
            groups[key] = Group(*key, run.declarations, run.names, counter), _collectors()
        group, collectors = groups[key]
        if run.stop_reason in ("invalid", "cancelled") or (run.held_out and not held_out):
            group.num_left_out += 1
            continue
        group.add(run)
        for collector in collectors:
            collector.add(run)
    findings: list[Finding] = []
    for group, collectors in groups.values():
        found = [finding for collector in collectors for finding in collector.findings(group)]
        found += _static(group)
        findings += sorted(_without_doubles(found), key=lambda finding: -(finding.expected_gain.value or 0.0))
    reports = tuple(_report(group) for group, _ in groups.values())
    return Diagnosis(harnesses=reports, findings=tuple(findings), tokens=counter.how)


def _collectors() -> list[Collector]:
    return [Usage(), Alternatives(), Retries(), Succession(), Verification(), Margins(), Results(), Gates()]


def _static(group: Group) -> Iterator[Finding]:
    for finding in lint(
        group.harness,
        group.declarations,
        counter=group.counter,
        gain_of=group.gain_if_used,
        sd_of_pair=group.sd_of_pair,
    ):
        evidence = next(filter(None, (group.failed_without.get(tool) for tool in finding.tools)), group.some_runs)
        yield msgspec.structs.replace(
            finding, evidence=tuple(evidence), data={**finding.data, "harness_hash": group.harness_hash}
        )


def _without_doubles(found: list[Finding]) -> list[Finding]:
    """One finding for each fault: what an overlap or a dead tool explains is not told again as something else."""
    dead = {finding.tools[0] for finding in found if finding.kind in ("always_failing", "never_called", "never_shown")}
    overlapping = {frozenset(finding.tools) for finding in found if finding.kind == "overlap"}
    kept = []
    seen: set[Any] = set()
    for finding in found:
        if finding.kind in ("overlap", "gate", "verification", "succession") and dead & set(finding.tools):
            continue
        if finding.kind == "verification" and frozenset(finding.tools) in overlapping:
            continue
        key = finding.kind, frozenset(finding.tools), finding.data.get("way"), finding.data.get("problem")
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return kept


def _report(group: Group) -> HarnessReport:
    tallies = [tally for used in group.by_goal.values() for tally in used.values()]
    total = sum(tally.total for tally in tallies)
    return HarnessReport(
        harness=group.harness,
        harness_hash=group.harness_hash,
        tools=group.names,
        num_runs=group.num_runs,
        num_left_out=group.num_left_out,
        num_scored=group.num_scored,
        num_achieved=sum(tally.achieved for tally in tallies),
        effectiveness=total / group.num_scored if group.num_scored else None,
        unreadable_events=group.unreadable,
    )
