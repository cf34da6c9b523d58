"""What a report shows, gathered from the stores: numbers of each version, what its runs did, findings, transcripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any

import msgspec
from msgspec import Struct, field

from daneel.bench.decomposition import Decomposition, decompose
from daneel.bench.diagnose.diagnosis import diagnose
from daneel.bench.diagnose.reading import RunReader, Selection
from daneel.bench.diagnose.view import RunView
from daneel.bench.effectiveness import Summary, summarise
from daneel.bench.finding import Finding
from daneel.bench.goal_set import GoalSet, goal_set
from daneel.bench.identity_diff import Side, harness_diff, require_comparable, side_of
from daneel.bench.lost_turns import LossCounter, LostTurns, turn_labels
from daneel.bench.plan import Plan
from daneel.bench.record import Trial
from daneel.bench.store import TrialStore
from daneel.errors import UserError
from daneel.harness.run_record import Event
from daneel.harness.transcript import TranscriptStore

START, END = "(start)", "(answer)"
Progress = Callable[[], object]


class ToolUse(Struct, kw_only=True):
    """One tool in the runs of one version."""

    shown_turns: int = 0
    calls: int = 0
    failed: int = 0
    runs: int = 0
    """Runs in which it was called."""


class Version(Struct, kw_only=True):
    """One harness of one measurement; or runs that are no trials, without numbers. `tools`: in the order of the harness."""

    id: str
    harness: str
    measurement: str | None
    created_at: str
    hash: str
    model: str
    summary: Summary | None = None
    goals: GoalSet | None = None
    lost: LostTurns | None = None
    num_runs: int = 0
    tools: dict[str, ToolUse] = field(default_factory=dict)
    turns: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By number of turns: trials that achieved the goal, and the others; invalid ones are in neither."""
    successions: list[tuple[str, str, int]] = field(default_factory=list)
    """(tool, the next one, how often), the beginning and the end of runs included; the most frequent first."""
    key: tuple[str, str] = ("", "")
    trials: list[Trial] = field(default_factory=list)


class Difference(Struct, frozen=True, kw_only=True):
    """Two versions of one report that may be compared: where dE comes from, and a diff of the harnesses."""

    first: str
    second: str
    decomposition: Decomposition
    diff: str


class ShownRun(Struct, frozen=True, kw_only=True):
    """A transcript: `events` as stored, `labels` by turn as `lost_turns.py` gives them."""

    id: str
    version: str
    goal: str
    prompt: str
    seed: int | None
    achieved: bool | None
    stop_reason: str
    turns: int
    not_scored: str | None
    labels: dict[int, str]
    events: list[Event]


class Report(Struct, frozen=True, kw_only=True):
    """All of it. `num_left_out`: runs whose transcripts are not shown, though they are counted."""

    title: str
    versions: list[Version]
    differences: list[Difference]
    findings: list[Finding]
    tokens: str
    runs: list[ShownRun]
    num_left_out: int
    goals: dict[str, str]
    """The prompt of each goal."""


def gather(names: Sequence[str], *, max_transcripts: int, on_run: Progress | None = None) -> Report:
    """The report of measurements and runs, by their ids or how they begin.

    Raises `UserError` when there is nothing of that name, and with a diff when the numbers must not stand beside each other.
    """
    with RunReader() as reader:
        selection = reader.select(names)
        versions, sides, goals = _measured(selection)
        require_all_comparable(sides)
        views = []
        for view in reader.read(selection):
            views.append(view)
            if on_run is not None:
                on_run()
    by_key = _with_single_runs(versions, views)
    trials = {trial.run_id: trial for version in versions for trial in version.trials if trial.run_id is not None}
    shown = _told(versions, views, trials, by_key, goals, max_transcripts)
    diagnosis = diagnose(views)
    return Report(
        title=", ".join(dict.fromkeys([*selection.measurements, *selection.runs])),
        versions=versions,
        differences=_differences(versions, sides),
        findings=list(diagnosis.findings),
        tokens=diagnosis.tokens,
        runs=shown,
        num_left_out=len(views) - len(shown),
        goals={view.goal: view.prompt for view in views},
    )


def require_all_comparable(sides: Sequence[Side]) -> None:
    """Raises `UserError` for the first two that must not stand beside each other."""
    for first, second in combinations(sides, 2):
        require_comparable(first, second)


def _measured(selection: Selection) -> tuple[list[Version], list[Side], dict[str, dict[str, int | None]]]:
    """The arms of the measurements, the oldest first; for each measurement the `min_turns` of its goals."""
    versions: list[Version] = []
    sides: list[Side] = []
    min_turns: dict[str, dict[str, int | None]] = {}
    with TrialStore() as store:
        found = [(name, _plan(store, name), store.trials(name)) for name in selection.measurements]
    found.sort(key=lambda each: each[2][0].started_at if each[2] else "")
    for name, plan, trials in found:
        min_turns[name] = {} if plan is None else {goal.name: goal.min_turns for goal in plan.goals}
        arms = [arm.name for arm in plan.arms] if plan is not None else list(dict.fromkeys(trial.harness for trial in trials))
        for arm in arms:
            side = side_of(plan, trials, arm, f"{name}:{arm}")
            if not side.trials:
                continue
            sides.append(side)
            versions.append(_version(name, arm, side, len(versions), min_turns[name]))
    return versions, sides, min_turns


def _plan(store: TrialStore, name: str) -> Plan | None:
    try:
        return store.plan(name)
    except UserError:  # trials of a time when plans were not kept
        return None


def _version(measurement: str, arm: str, side: Side, number: int, min_turns: dict[str, int | None]) -> Version:
    trials = list(side.trials)
    turns: Counter[tuple[int, bool]] = Counter((trial.turns, bool(trial.achieved)) for trial in trials if trial.scored)
    names = [str(declared.get("function", {}).get("name")) for declared in side.arm.declarations] if side.arm else []
    return Version(
        id=f"v{number}",
        harness=arm,
        measurement=measurement,
        created_at=trials[0].started_at,
        hash=trials[0].harness_hash,
        model=trials[0].model,
        summary=summarise(trials),
        goals=goal_set(trials, min_turns),
        tools={name: ToolUse() for name in names},
        turns={number: (turns[number, True], turns[number, False]) for number in sorted({turn for turn, _ in turns})},
        key=(measurement, arm),
        trials=trials,
    )


def _with_single_runs(versions: list[Version], views: Sequence[RunView]) -> dict[str, Version]:
    """The version of each run, by run id; runs that belong to none of `versions` make new ones, by their harness."""
    of_trial = {trial.run_id: version for version in versions for trial in version.trials if trial.run_id is not None}
    singles: dict[tuple[str, str], Version] = {}
    by_run: dict[str, Version] = {}
    for view in views:
        version = of_trial.get(view.id)
        if version is None:
            key = view.harness, view.harness_hash
            if key not in singles:
                singles[key] = Version(
                    id=f"v{len(versions)}",
                    harness=view.harness,
                    measurement=None,
                    created_at="",
                    hash=view.harness_hash,
                    model="",
                )
                versions.append(singles[key])
            version = singles[key]
            done = version.turns.get(view.turns, (0, 0))
            version.turns[view.turns] = (done[0] + bool(view.achieved), done[1] + (not view.achieved))
        by_run[view.id] = version
    for view in views:
        _count(by_run[view.id], view)
    for version in versions:
        version.successions.sort(key=lambda each: -each[2])
    return by_run


def _count(version: Version, view: RunView) -> None:
    version.num_runs += 1
    for name in view.names:
        version.tools.setdefault(name, ToolUse())
    for name, turns in view.shown.items():
        version.tools.setdefault(name, ToolUse()).shown_turns += turns
    for name in {call.name for call in view.calls}:
        version.tools.setdefault(name, ToolUse()).runs += 1
    for call in view.calls:
        version.tools[call.name].calls += 1
        version.tools[call.name].failed += call.failed
    counts = Counter({(a, b): count for a, b, count in version.successions})
    counts.update(pairwise([START, *(call.name for call in view.made), *([END] if view.answer is not None else [])]))
    version.successions = [(a, b, count) for (a, b), count in counts.items()]


def _told(
    versions: Sequence[Version],
    views: Sequence[RunView],
    trials: dict[str, Trial],
    by_run: dict[str, Version],
    goals: dict[str, dict[str, int | None]],
    max_transcripts: int,
) -> list[ShownRun]:
    """Read each run's events once: all of them for lost turns, and those to be shown for their transcripts."""
    counters = {version.id: LossCounter() for version in versions if version.summary is not None}
    chosen = _chosen(views, by_run, max_transcripts)
    shown: dict[str, ShownRun] = {}
    with TranscriptStore() as store:
        for view in views:
            events = [row.event for row in store.events(view.id)]
            labels = turn_labels(events, repeating=view.repeating)
            version, trial = by_run[view.id], trials.get(view.id)
            if trial is not None and version.measurement is not None:
                counters[version.id].add(trial, labels, goals[version.measurement].get(trial.goal))
            if view.id in chosen:
                shown[view.id] = _shown(view, trial, version, labels, events)
    read = {view.id for view in views}
    for version in versions:
        if version.id in counters:
            for trial in version.trials:
                if trial.run_id not in read:
                    counters[version.id].add(trial, None)
            version.lost = counters[version.id].total()
    return [shown[run_id] for run_id in chosen if run_id in shown]


def _chosen(views: Sequence[RunView], by_run: dict[str, Version], max_transcripts: int) -> dict[str, None]:
    """So many runs, the same number of each version; of each, failed and achieved ones in turn, as they were run."""
    queues: dict[str, list[str]] = {}
    for version in dict.fromkeys(by_run[view.id].id for view in views):
        own = [view for view in views if by_run[view.id].id == version]
        good, bad = [v.id for v in own if v.achieved], [v.id for v in own if not v.achieved]
        mixed = [run_id for pair in zip(bad, good, strict=False) for run_id in pair]
        queues[version] = mixed + bad[len(good) :] + good[len(bad) :]
    wanted: set[str] = set()
    for place in range(max(map(len, queues.values()), default=0)):
        for queue in queues.values():
            if place < len(queue) and len(wanted) < max_transcripts:
                wanted.add(queue[place])
    return dict.fromkeys(view.id for view in views if view.id in wanted)


def _shown(view: RunView, trial: Trial | None, version: Version, labels: dict[int, str], events: list[Event]) -> ShownRun:
    return ShownRun(
        id=view.id,
        version=version.id,
        goal=view.goal,
        prompt=view.prompt,
        seed=trial.seed if trial else None,
        achieved=view.achieved,
        stop_reason=view.stop_reason,
        turns=view.turns,
        not_scored=trial.not_scored if trial else None,
        labels=labels,
        events=events,
    )


def _differences(versions: Sequence[Version], sides: Sequence[Side]) -> list[Difference]:
    """Each later version against the first; more than one step at a time is for `daneel compare`."""
    measured = [version for version in versions if version.summary is not None]
    found = []
    for version, side in list(zip(measured, sides, strict=True))[1:]:
        parts = decompose(version.trials, measured[0].trials)
        if parts is not None:
            arm, base = side.arm, sides[0].arm
            diff = harness_diff(base, arm) if arm is not None and base is not None else ""
            found.append(Difference(first=version.id, second=measured[0].id, decomposition=parts, diff=diff))
    return found


def plain(report: Report) -> dict[str, Any]:
    """The report without transcripts and rows, for `--json`; evidence with the command that shows it."""
    data: dict[str, Any] = msgspec.to_builtins(report, str_keys=True)
    for version in data["versions"]:
        version.pop("trials")
        version.pop("key")
    for finding in data["findings"]:
        for each in finding["evidence"]:
            each["command"] = f"daneel transcripts show {each['run_id']} --turn {each['turn']}"
    data["runs"] = [{name: value for name, value in run.items() if name != "events"} for run in data["runs"]]
    return data
