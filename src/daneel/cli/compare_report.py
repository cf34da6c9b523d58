"""How `daneel compare` and `daneel gate` speak: what is asked, what was shown and how surely, what it takes to know more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from daneel import __version__
from daneel.bench import compare
from daneel.bench.compare import Answer, Comparison, Question
from daneel.bench.plan import Plan
from daneel.bench.statistics.sample_size import pairs_needed

MIN_WIDTH = 100
"""Columns for a report that goes into a file or a pipe."""
MIN_PAIRS_TO_PLAN = 10
"""With fewer, their standard deviation says too little to plan by."""


def console(*, quiet: bool) -> Console:
    """Where the report goes: standard output, wide enough also in a file."""
    out = Console(highlight=False, quiet=quiet)
    if not out.is_terminal:
        out.width = max(out.width, MIN_WIDTH)
    return out


def asked(question: Question, num_comparisons: int = 1) -> str:
    """The question, in a sentence or two."""
    alpha = f"{question.alpha:g}"
    if question.fixed:
        how = f"{_counted(question.max_pairs, 'pair')}, looked at once (sign-flip permutation test, alpha {alpha})"
    else:
        how = f"at most {_counted(question.max_pairs, 'pair')}, looked at after each (betting test, alpha {alpha})"
    if num_comparisons > 1:
        how += f"; {num_comparisons} comparisons at once, by {'Bonferroni' if question.fixed else 'e-BH'}"
    if question.noninferior is not None:
        return f"Is the first not worse by {question.noninferior:g} or more? {how}"
    if question.margin is not None:
        return f"Which has the higher E, or do they differ by less than {question.margin:g}? {how}"
    return f"Which has the higher E? {how}"


def print_plan(out: Console, plan: Plan, comparison: Comparison, *, server: str) -> None:
    """What is about to be compared."""
    for goal in plan.goals:
        out.print(f"[bold]Goal[/]      {escape(goal.name)}: “{escape(goal.prompt)}”{' (held out)' if goal.held_out else ''}")
    told = "" if plan.model.verified else " (unverified: the server gives no hash of the weights)"
    out.print(f"[bold]Model[/]     {escape(plan.model.name)} at {escape(server)}{told}")
    out.print(f"[bold]Arms[/]      {escape(', '.join(comparison.arms))}; order drawn anew for each pair")
    out.print(f"[bold]Question[/]  {escape(asked(comparison.question, len(comparison.pairings)))}")
    out.print(f"[bold]Plan[/]      base seed {plan.base_seed}; measurement {plan.id}\n")


def print_answers(out: Console, comparison: Comparison, *, interrupted: bool = False) -> None:
    """The verdicts, each with what it rests on; then what they do not say."""
    answers = comparison.answers()
    means = comparison.means()
    if len(answers) == 1:
        _print_one(out, answers[0], comparison.question, means)
    else:
        _print_many(out, answers, comparison, means)
    for answer in answers:
        if answer.verdict == compare.REFUSED:
            out.print(escape(_why_refused(answer)))
    if interrupted:
        out.print("Interrupted: this is what the pairs that were finished by then show.")


def _print_one(out: Console, answer: Answer, question: Question, means: Mapping[str, float]) -> None:
    out.print(f"[bold]{escape(verdict(answer, question))}[/]")
    out.print(f"  {escape(evidence(answer, question))}")
    if means:
        out.print(escape("  E: " + ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())))
    if (more := advice(answer, question)) is not None:
        out.print(f"  {escape(more)}")


def _print_many(out: Console, answers: list[Answer], comparison: Comparison, means: Mapping[str, float]) -> None:
    question = comparison.question
    out.print(
        f"[bold]Order by mean E[/]: {escape(', '.join(f'{name} {mean:.2f}' for name, mean in means.items()) or 'none')}\n"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("comparison", "difference", "interval", "p" if question.fixed else "e-value", "pairs"):
        table.add_column(title, justify="left" if title == "comparison" else "right")
    for answer in answers:
        strength = _number(answer.p_value, ".4f") if question.fixed else _number(answer.e_value, ".3g")
        table.add_row(
            escape(verdict(answer, question)),
            _number(answer.difference, "+.3f"),
            escape(_interval(answer)),
            strength,
            str(answer.num_pairs),
        )
    out.print(table)
    level = 100 * (1 - question.alpha)
    out.print(
        f"\nIntervals: with {level:g} %, all of them hold the true difference. Of the verdicts better, worse and (not) "
        f"inferior, at most {100 * question.alpha:g} % are wrong on average.",
        style="dim",
    )


def verdict(answer: Answer, question: Question) -> str:
    """The verdict as a sentence without its full stop."""
    first, second = answer.first, answer.second
    return {
        compare.BETTER: f"{first} is better than {second}",
        compare.WORSE: f"{first} is worse than {second}",
        compare.NO_DIFFERENCE: f"{first} and {second}: no difference larger than {question.margin or 0:g}",
        compare.NOT_INFERIOR: f"{first} is not worse than {second} by {question.noninferior or 0:g} or more",
        compare.INFERIOR: f"{first} is worse than {second} by more than {question.noninferior or 0:g}",
        compare.NOT_KNOWN: f"{first} and {second}: not known yet",
        compare.REFUSED: f"{first} and {second}: no verdict, they lose trials at different rates",
    }[answer.verdict]


def evidence(answer: Answer, question: Question) -> str:
    """What the verdict rests on, on one line."""
    if answer.difference is None:
        return f"No pair was scored; {answer.num_dropped} dropped."
    if question.fixed:
        strength = "not complete" if answer.p_value is None else f"p {answer.p_value:.4f} (claimed at {question.alpha:g})"
    else:
        strength = f"e-value {answer.e_value:.3g} (claimed at {1 / question.alpha:.3g})"
    dropped = f", {answer.num_dropped} dropped" if answer.num_dropped else ""
    kind = "interval" if question.fixed else "confidence sequence"
    return (
        f"E({answer.first}) - E({answer.second}) = {answer.difference:+.3f}, {kind} {_interval(answer)} at "
        f"{100 * (1 - question.alpha):g} %; {strength}; {_counted(answer.num_pairs, 'pair')}{dropped}"
    )


def advice(answer: Answer, question: Question) -> str | None:
    """What it would take to know more, where that can be told."""
    if answer.verdict != compare.NOT_KNOWN or answer.sd is None or answer.num_pairs < MIN_PAIRS_TO_PLAN:
        return None
    differences = dict.fromkeys(round(each, 2) for each in (abs(answer.difference or 0.0), 0.1, 0.05))
    sd = min(1.0, answer.sd)
    pairs = [(each, pairs_needed(each, sd, alpha=question.alpha)) for each in differences if 0.01 <= each <= 1]
    listed = ", ".join(f"{difference:g}: {count}" for difference, count in pairs)
    return f"Pairs in which a true difference is shown in 85 % of cases, where it varies as here (sd {sd:.2f}): {listed}"


def _why_refused(answer: Answer) -> str:
    return (
        f"In {_counted(answer.only_first_invalid, 'pair')} only {answer.first} had attempts that could not be scored, in "
        f"{answer.only_second_invalid} only {answer.second}. Were both as likely to, such counts would come up in at most one "
        f"of {answer.losses_e_value:.3g} comparisons (e-value of a betting test on the counts; refused at 1/alpha). What is "
        "left of the two is not comparable: see why attempts failed, and put that right first."
    )


def as_object(plan: Plan | None, comparison: Comparison, **more: Any) -> dict[str, Any]:
    """Everything, for `--json`."""
    told: dict[str, Any] = {"daneel": __version__}
    if plan is not None:
        told |= {
            "measurement": plan.id,
            "model": {"name": plan.model.name, "hash": plan.model.hash, "verified": plan.model.verified},
            "goals": [{"name": goal.name, "prompt": goal.prompt, "hash": goal.hash} for goal in plan.goals],
            "base_seed": plan.base_seed,
            "harnesses": {arm.name: {"hash": arm.hash, "file": arm.arm.file} for arm in plan.arms},
        }
    question = comparison.question
    return {
        **told,
        "question": msgspec.to_builtins(question),
        "decided": comparison.decided,
        "effectiveness": comparison.means(),
        "answers": [{**msgspec.to_builtins(answer), "sentence": verdict(answer, question)} for answer in comparison.answers()],
        **more,
    }


def _interval(answer: Answer) -> str:
    return f"[{answer.interval[0]:+.3f}, {answer.interval[1]:+.3f}]"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
