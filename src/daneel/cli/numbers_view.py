"""More of what trials say, for `daneel measure`: goal by goal, pass^k, SPL, where a difference comes from, lost turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from daneel.bench.decomposition import decompose
from daneel.bench.effectiveness import Interval
from daneel.bench.goal_set import DESCRIPTIVE, GoalSet, goal_set
from daneel.bench.lost_turns import IN_WORDS, LossCounter, LostTurns, turn_labels
from daneel.bench.plan import Plan
from daneel.bench.record import Trial
from daneel.cli.run_view import printable
from daneel.errors import UserError
from daneel.harness.transcript import TranscriptStore

MAX_SAID_CAUSES = 4


def goal_sets(plan: Plan, trials: Sequence[Trial]) -> dict[str, GoalSet | None]:
    """The numbers of each arm, goal by goal and over all."""
    min_turns = {goal.name: goal.min_turns for goal in plan.goals}
    return {arm.name: goal_set([trial for trial in trials if trial.harness == arm.name], min_turns) for arm in plan.arms}


def lost_turns(plan: Plan, trials: Sequence[Trial]) -> dict[str, LostTurns]:
    """The lost turns of each arm, from the transcripts of its trials; those that cannot be read are counted as unread."""
    counters = {arm.name: LossCounter() for arm in plan.arms}
    min_turns = {goal.name: goal.min_turns for goal in plan.goals}
    try:
        with TranscriptStore() as store:
            repeating: dict[str, list[str]] = {}
            for trial in trials:
                if trial.harness in counters and trial.scored:
                    labels = _labels(store, trial, repeating)
                    counters[trial.harness].add(trial, labels, min_turns.get(trial.goal))
    except UserError:  # without transcripts there are numbers all the same
        return {}
    return {name: counter.total() for name, counter in counters.items()}


def _labels(store: TranscriptStore, trial: Trial, repeating: dict[str, list[str]]) -> Mapping[int, str] | None:
    """What the turns of a trial were; `repeating` keeps, by harness, which tools may be asked again."""
    events = [row.event for row in store.events(trial.run_id)] if trial.run_id is not None else []
    if trial.run_id is None or not events:
        return None
    if trial.harness not in repeating:
        repeating[trial.harness] = list(map(str, store.find(trial.run_id).about.get("repeating_tools") or ()))
    return turn_labels(events, repeating=repeating[trial.harness])


def print_numbers(console: Console, plan: Plan, trials: Sequence[Trial]) -> None:
    """All of it that there is something to say of; the rest is left out."""
    sets = {name: found for name, found in goal_sets(plan, trials).items() if found is not None}
    if not sets:
        return
    _print_goals(console, sets)
    _print_reliability(console, sets)
    _print_differences(console, plan, trials)
    _print_lost(console, lost_turns(plan, trials))


def _print_goals(console: Console, sets: Mapping[str, GoalSet]) -> None:
    goals = list(dict.fromkeys(goal for found in sets.values() for goal in found.by_goal))
    if len(goals) > 1:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("E by goal")
        for name in sets:
            table.add_column(escape(printable(name)), justify="right")
        for goal in goals:
            cells = [found.by_goal.get(goal) for found in sets.values()]
            told = ["-" if cell is None else _with(cell.effectiveness, cell.effectiveness_interval) for cell in cells]
            table.add_row(escape(printable(goal)), *told)
        wide = [found.goals_like_these for found in sets.values()]
        if any(wide):
            told = [_with(found.effectiveness, found.goals_like_these) for found in sets.values()]
            table.add_row("[bold]all, and goals like them[/]", *told)
        console.print(table)
        console.print()
    for question in dict.fromkeys(found.question for found in sets.values()):
        console.print(f"What E answers here: {question}", style="dim")
    if len(goals) > 1 and any(found.descriptive for found in sets.values()):
        console.print(f"The mean over goals is {DESCRIPTIVE}.", style="dim")
    console.print()


def _with(value: float, interval: Interval | None) -> str:
    return f"{value:.2f}" if interval is None else f"{value:.2f} [dim]\\[{interval[0]:.2f}, {interval[1]:.2f}][/]"


def _print_reliability(console: Console, sets: Mapping[str, GoalSet]) -> None:
    for name, found in sets.items():
        said = ", ".join(f"{power:.2f} for k = {k}" for k, power in found.pass_power.items() if k > 1)
        spl = "" if found.spl is None else f"SPL {found.spl:.2f}"
        told = "; ".join(part for part in (said and f"pass^k {said}", spl) if part)
        if told:
            console.print(f"  [bold]{escape(printable(name))}[/]  {told}")
    if any(found.spl is not None or len(found.pass_power) > 1 for found in sets.values()):
        console.print(
            "  pass^k: the chance that k trials in a row all achieve the goal. SPL: success weighted by turns.", style="dim"
        )
        console.print()


def _print_differences(console: Console, plan: Plan, trials: Sequence[Trial]) -> None:
    first, *others = [arm.name for arm in plan.arms]
    base = [trial for trial in trials if trial.harness == first]
    told = []
    for name in others:
        parts = decompose([trial for trial in trials if trial.harness == name], base)
        if parts is not None:
            told.append(
                f"  [bold]{escape(printable(name))}[/]  dE {parts.difference:+.3f} = {parts.more_achieved:+.3f} more goals "
                f"achieved, {parts.fewer_turns:+.3f} fewer turns when achieved"
            )
    if told:
        console.print(f"[bold]Against {escape(printable(first))}[/]")
        for line in told:
            console.print(line)
        console.print()


def _print_lost(console: Console, lost: Mapping[str, LostTurns]) -> None:
    told = []
    for name, found in lost.items():
        if not found.turns:
            continue
        losses = found.losses[:MAX_SAID_CAUSES]
        said = ", ".join(f"{IN_WORDS[loss.cause]} {loss.turns}" for loss in losses) or "none"
        more = sum(loss.turns for loss in found.losses[MAX_SAID_CAUSES:])
        unread = f"; {found.unread} trials without a transcript" if found.unread else ""
        rest = f", other causes {more}" if more else ""
        told.append(f"  [bold]{escape(printable(name))}[/]  {found.turns - found.kept} of {found.turns}: {said}{rest}{unread}")
    if told:
        console.print("[bold]Turns lost[/]")
        for line in told:
            console.print(line)
        console.print()


def numbers_object(plan: Plan, trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """The same of each arm, by its name, for `--json`: `goals`, `lost_turns`, and `against` the first arm."""
    lost, sets = lost_turns(plan, trials), goal_sets(plan, trials)
    base = [trial for trial in trials if trial.harness == plan.arms[0].name]
    found: dict[str, dict[str, Any]] = {}
    for number, arm in enumerate(plan.arms):
        own = [trial for trial in trials if trial.harness == arm.name]
        against = decompose(own, base) if number else None
        facts = {"goals": sets[arm.name], "lost_turns": lost.get(arm.name), "against": against}
        found[arm.name] = msgspec.to_builtins(facts, str_keys=True)
    return found
