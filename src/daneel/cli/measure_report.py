"""How `daneel measure` speaks: what is tried, the table, why runs stopped, one transcript, and what it all does not say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from daneel.bench.effectiveness import Interval, Numbers, Summary, summarise
from daneel.bench.plan import Plan
from daneel.bench.record import Trial
from daneel.cli.numbers_view import numbers_object, print_numbers

MEANING = "E, effectiveness = mean of achieved / max(1, turns - 1): 1 = always, the shortest way; 0 = never."
COLUMNS = (
    "Below each number: its 95 % interval. P: share of trials that achieved the goal. Means per trial: turns (replies of the "
    "model), tool calls, tokens read and written, seconds. cached: share of the tokens read that the server had in its cache."
)
MAX_TEXT_CHARS = 600
MAX_TEXT_LINES = 12


def print_plan(console: Console, plan: Plan, *, server: str) -> None:
    """What is about to be measured: goals, model, harnesses with their tools."""
    model = plan.model
    for goal in plan.goals:
        held_out = " [dim](held out)[/]" if goal.held_out else ""
        console.print(f"[bold]Goal[/]   {escape(goal.name)}: “{escape(goal.prompt)}”{held_out}")
    told = "" if model.verified else " [dim](unverified: the server gives no hash of the weights)[/]"
    console.print(f"[bold]Model[/]  {escape(model.name)} at {escape(server)}{told}")
    temperatures = sorted({"the server's own" if arm.temperature is None else str(arm.temperature) for arm in plan.arms})
    choices = {arm.first_tool_choice for arm in plan.arms} - {None, "auto"}
    forced = f"; tool choice of the first turn: {escape(' or '.join(sorted(map(str, choices))))}" if choices else ""
    of_each = "of each harness" if len(plan.goals) == 1 else "of each harness on each goal"
    console.print(
        f"[bold]Plan[/]   {_counted(plan.num_trials, 'trial')} {of_each}, interleaved; "
        f"temperature {' or '.join(temperatures)}; base seed {plan.base_seed}{forced}; measurement {plan.id}\n"
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for arm in plan.arms:
        shown = [declared["function"] for declared in arm.declarations]
        tools = [f"[cyan]{escape(tool['name'])}[/] “{escape(_first_line(tool.get('description', '')))}”" for tool in shown]
        table.add_row(f"[bold]{escape(arm.name)}[/]", *(["\n".join(tools)] if len(tools) > 3 else tools or ["(no tools)"]))
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def summaries_of(plan: Plan, trials: Sequence[Trial]) -> dict[str, Summary]:
    """Each arm's trials, summed up."""
    return {arm.name: summarise([trial for trial in trials if trial.harness == arm.name]) for arm in plan.arms}


def print_results(console: Console, plan: Plan, trials: Sequence[Trial]) -> None:
    """The table, its explanation, why runs stopped, why trials were not scored; then what `numbers_view.py` adds."""
    summaries = summaries_of(plan, trials)
    console.print(f"{MEANING}\n")
    gap = 2 if console.width >= 90 else 1
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    table.add_column("")
    for title in ("E", "P", "turns", "calls", "read", "written", "cached", "sec", "invalid"):
        table.add_column(title, justify="right")
    for name, summary in summaries.items():
        table.add_row(f"[bold]{escape(name)}[/]", *_cells(summary.numbers), str(summary.num_invalid))
    console.print(table)
    console.print(f"\n{COLUMNS}\n", style="dim")
    console.print("[bold]Why runs stopped[/]")
    for name, summary in summaries.items():
        reasons = ", ".join(f"{reason} {count}" for reason, count in summary.stop_reasons.items()) or "no trial finished"
        console.print(f"  [bold]{escape(name)}[/]  {escape(reasons)}")
        for why, count in summary.not_scored.items():
            console.print(f"      [yellow]{count} not scored:[/] {escape(why)}")
    console.print()
    print_numbers(console, plan, trials)


def _cells(numbers: Numbers | None) -> list[str]:
    if numbers is None:
        return ["none scored", *["-"] * 7]
    return [
        f"[bold]{numbers.effectiveness:.2f}[/]\n{_bracketed(numbers.effectiveness_interval)}",
        f"{numbers.p_achieved:.2f}\n{_bracketed(numbers.p_achieved_interval)}",
        f"{numbers.mean_turns:.1f}",
        f"{numbers.mean_calls:.1f}",
        _or_dash(numbers.mean_prompt_tokens, "{:.0f}"),
        _or_dash(numbers.mean_completion_tokens, "{:.0f}"),
        _or_dash(numbers.cached_share, "{:.0%}"),
        f"{numbers.mean_duration_s:.1f}",
    ]


def _bracketed(interval: Interval) -> str:
    return f"[dim]\\[{interval[0]:.2f}, {interval[1]:.2f}][/]"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def print_transcript(
    console: Console, trial: Trial, messages: Sequence[Mapping[str, Any]], *, plan: Plan, trials: Sequence[Trial]
) -> None:
    """One trial, message by message, and how typical its verdict was."""
    summaries = summaries_of(plan, trials)
    verdict = {True: "goal achieved", False: "goal not achieved", None: "not scored"}[trial.achieved]
    num_scored = sum(summary.num_scored for summary in summaries.values())
    num_achieved = sum(summary.numbers.num_achieved for summary in summaries.values() if summary.numbers)
    console.print(
        f"[bold]One trial:[/] {escape(trial.harness)}, round {trial.index + 1}, [bold]{verdict}[/] "
        f"({num_achieved} of {num_scored} scored trials did); {_counted(trial.turns, 'turn')}, "
        f"stopped: {escape(trial.stop_reason)}; run {escape(str(trial.run_id))}"
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for message in messages:
        for label, text in _lines(message):
            table.add_row(label, text)
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _lines(message: Mapping[str, Any]) -> list[tuple[str, Text]]:
    """What one message says, as labelled text; shortened, since a tool may return a book and a small model may write one."""
    label = {"assistant": "model"}.get(str(message.get("role")), str(message.get("role")))
    said = [Text(_short(message[name]), style="dim") for name in ("reasoning", "reasoning_content") if message.get(name)]
    if message.get("content"):
        said.append(Text(_short(message["content"])))
    for call in message.get("tool_calls") or []:
        function = call.get("function", {})
        said.append(Text(f"→ {function.get('name')}({_arguments(function.get('arguments'))})", style="cyan"))
    said += [
        Text(f"→ could not be read: {_short(failed.get('raw'))}", style="red")
        for failed in message.get("failed_tool_calls") or []
    ]
    return [(label, text) for text in said or [Text("(empty)", style="dim")]]


def _arguments(arguments: Any) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return "" if text.strip() in ("{}", "") else _short(text)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    start = "\n".join(text.splitlines()[:MAX_TEXT_LINES])[:MAX_TEXT_CHARS]
    return text if len(start) >= len(text.rstrip()) else f"{start}… ({len(text)} characters)"


def results_object(plan: Plan, trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """The numbers of each arm, by its name, for `--json`."""
    more = numbers_object(plan, trials)
    return {name: {**msgspec.to_builtins(summary), **more[name]} for name, summary in summaries_of(plan, trials).items()}


def conclusion(plan: Plan, trials: Sequence[Trial]) -> str:
    """What was measured and what that does and does not say, in words anyone can check against the table."""
    summaries = summaries_of(plan, trials)
    known = {name: summary.numbers for name, summary in summaries.items() if summary.numbers is not None}
    if not known:
        return "Nothing was measured: no trial could be scored."
    num_scored = sum(summary.num_scored for summary in summaries.values())
    goals = "one goal" if len(plan.goals) == 1 else f"{len(plan.goals)} goals"
    scope = f"{_counted(num_scored, 'scored trial')} of {goals} on one model ({plan.model.name})"
    said = f"What was measured: {scope}. It says nothing of other goals or models."
    if all(numbers.num_achieved == 0 for numbers in known.values()):
        most = max(numbers.effectiveness_interval[1] for numbers in known.values())
        return f"{said} Here the goal was never achieved; with so few trials, the true E may still be up to {most:.2f}."
    apart = [
        f"{a} and {b}"
        for a, b in combinations(known, 2)
        if _apart(known[a].effectiveness_interval, known[b].effectiveness_interval)
    ]
    if apart:
        return f"{said} The intervals of {_listed(apart)} do not overlap; other differences may be chance."
    if len(known) > 1:
        return f"{said} The intervals of E all overlap: these trials do not show that one harness is better than another."
    return said


def _apart(a: Interval, b: Interval) -> bool:
    return a[1] < b[0] or b[1] < a[0]


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}, and of {items[-1]}"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
