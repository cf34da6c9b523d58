"""How `daneel tune` speaks: what is to be tried, the ledger as a table, what is kept and how surely."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from daneel import __version__
from daneel.bench.tune.ledger import KEPT, Entry, Tuning
from daneel.cli.run_view import printable

_STYLES = {KEPT: "green", "not confirmed": "yellow"}


def print_plan(out: Console, tuning: Tuning, *, server: str) -> None:
    """What is about to be done."""
    chosen, confirmed = (", ".join(goal.name for goal in goals) for goals in (tuning.search_goals, tuning.confirm_goals))
    told = "" if tuning.model.verified else " (unverified: the server gives no hash of the weights)"
    out.print(f"[bold]Harness[/]   {escape(tuning.start.name)}, {len(tuning.start.declarations)} tools")
    out.print(f"[bold]Model[/]     {escape(tuning.model.name)} at {escape(server)}{told}")
    out.print(f"[bold]Screened[/]  on {escape(chosen)}")
    how = "held out" if tuning.held_out else "[yellow]none is held out: the same goals, with seeds of their own[/]"
    out.print(f"[bold]Confirmed[/] on {escape(confirmed)} ({how})")
    question = (
        "is it better?" if tuning.noninferior is None else f"is it better, or simpler and not worse by {tuning.noninferior:g}?"
    )
    out.print(
        f"[bold]Question[/]  {question} betting test, looked at after each pair; alpha {tuning.alpha:g} for all confirmations "
        "together, the k-th having alpha/(k (k + 1))"
    )
    out.print(f"[bold]Budget[/]    {tuning.budget_pairs} pairs ({2 * tuning.budget_pairs} trials)")
    out.print(f"[bold]Plan[/]      base seed {tuning.base_seed}; tuning {tuning.id}\n")


def print_all(out: Console, tuning: Tuning, diff: str, *, file: str | None, interrupted: bool) -> None:
    """The ledger, and what has come of it."""
    print_ledger(out, tuning)
    print_outcome(out, tuning, diff, interrupted=interrupted)
    if file is not None:
        out.print(f"Written: {file}", soft_wrap=True, markup=False)
    if interrupted:
        out.print(f"To go on: daneel tune --resume {tuning.id}")


def print_ledger(out: Console, tuning: Tuning) -> None:
    """Everything that was tried: the mean difference in E, and of how many pairs."""
    table = Table("#", "change", "found as", "screened", "confirmed", "e-value", "outcome", box=None, pad_edge=False)
    for entry in tuning.entries:
        table.add_row(*_row(entry), style=_STYLES.get(entry.status, "dim"))
    if tuning.entries:
        out.print(table)
        out.print("Screened, confirmed: the mean difference in E, of so many pairs.", style="dim")
    for note in tuning.notes:
        out.print(Text(printable(note), style="dim"), soft_wrap=True)


def _row(entry: Entry) -> list[Text | str]:
    of = entry.confirmation
    screened = _of_pairs(entry.screened_pairs, entry.screened_difference)
    tested = ["-", "-"] if of is None else [_of_pairs(of.num_pairs, of.difference), _evidence(of.e_value, of.alpha)]
    said = entry.status if not entry.reason else f"{entry.status}: {entry.reason}"
    found = entry.kind if entry.source == "rule" else f"{entry.kind}, worded by the {entry.source}"
    return [str(entry.number), Text(printable(entry.told)), Text(found), screened, *tested, Text(printable(said))]


def _of_pairs(num_pairs: int, difference: float | None) -> str:
    return f"{_signed(difference)} of {num_pairs}" if num_pairs else "-"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _evidence(e_value: float, alpha: float) -> str:
    return f"{e_value:.3g} {'≥' if e_value >= 1 / alpha else '<'} {1 / alpha:.0f}"


def print_outcome(out: Console, tuning: Tuning, diff: str, *, interrupted: bool) -> None:
    """What is kept, and what is not claimed."""
    spent = f"{tuning.num_trials} of {2 * tuning.budget_pairs} trials"
    why = "interrupted" if interrupted else tuning.ended or ""
    out.print(f"\n{spent}; {escape(why)}.")
    kept = [entry for entry in tuning.entries if entry.status == KEPT]
    if not kept:
        out.print("[bold]Nothing is kept[/]: no change was confirmed. That is no proof that none would help.")
        return
    for entry in kept:
        of = entry.confirmation
        if of is not None:
            low, high = of.interval
            sure = f"confidence sequence [{low:+.2f}, {high:+.2f}]"
            said = f"{of.question}, ΔE {_signed(of.difference)} in {of.num_pairs} pairs, {sure}"
            out.print(
                Text(printable(f"Kept #{entry.number}, {entry.told}: {said} against {entry.base}"), style="bold"),
                soft_wrap=True,
            )
    where = (
        "goals that nothing was chosen by"
        if tuning.held_out
        else "fresh seeds of the goals it was chosen by, and so for these only"
    )
    out.print(f"Each was confirmed on {where}. Differences of early stops lean to the large side.\n")
    if diff:
        out.print(Text(printable(diff)), soft_wrap=True)


def as_object(tuning: Tuning, diff: str, *, file: str | None, interrupted: bool) -> dict[str, Any]:
    """All of it, for `--json`."""
    plain: dict[str, Any] = msgspec.to_builtins(tuning)
    entries = [{**each, "told": entry.told} for each, entry in zip(plain["entries"], tuning.entries, strict=True)]
    about = {"daneel": __version__, "held_out": tuning.held_out, "diff": diff, "file": file, "interrupted": interrupted}
    return {**plain, "entries": entries, **about}
