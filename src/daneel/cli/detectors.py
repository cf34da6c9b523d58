"""`daneel transcripts label` and `replay-detectors`: are the detectors right? Measured on stored runs that a person judged."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from enum import StrEnum
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from daneel.cli.run_view import printable
from daneel.errors import UserError
from daneel.harness.detectors.replay import ANY, DETECTORS, Fired, Score, replay_detectors, score
from daneel.harness.labels import Label, LabelStore
from daneel.harness.policy import Recovery
from daneel.harness.transcript import TranscriptStore

SHOWN_RUNS = 20


class Answer(StrEnum):
    yes = "yes"
    no = "no"


def register(group: typer.Typer) -> None:
    """Add this file's commands to the group `transcripts`."""
    group.command("label")(_label)
    group.command("replay-detectors")(_replay)


def _label(
    run_id: str = typer.Argument(..., metavar="ID", help="A run's id, or how it starts; `last` for the newest."),
    stuck: Answer = typer.Argument(..., help="Was the run stuck: repeating itself, or getting nowhere?"),
    detector: str = typer.Option(ANY, help=f"Say it of one detector's way of being stuck only: {', '.join(DETECTORS)}."),
    note: str | None = typer.Option(None, help="A word on why."),
) -> None:
    """Say whether a run was stuck. The last label of a run counts; `replay-detectors` measures the detectors by them."""
    if detector not in (ANY, *DETECTORS):
        raise UserError(f"--detector: there is no {detector!r}; there are: {', '.join(DETECTORS)}")
    with TranscriptStore() as store:
        run = store.find(run_id)
        LabelStore(store.path).add(Label(run.id, detector, stuck is Answer.yes, note))
    print(f"run {run.id}: {'stuck' if stuck is Answer.yes else 'not stuck'}{'' if detector == ANY else f' ({detector})'}")


def _replay(
    run_ids: list[str] = typer.Argument(None, metavar="[ID]…", help="Runs; all of them when none is named."),
    changes: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="Another threshold, as `repeat_note_at=3`."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """Run the detectors over stored runs, and compare them with the labels: precision and recall of each, by grade."""
    policy = _policy(changes)
    with TranscriptStore() as store:
        runs = [store.find(run_id) for run_id in run_ids] if run_ids else store.runs()
        labels = LabelStore(store.path).all()
        fired = {run.id: replay_detectors(run.about, (row.event for row in store.events(run.id)), policy) for run in runs}
    scores = score((labels[run_id], found) for run_id, found in fired.items() if run_id in labels)
    report = _report(fired, labels, scores)
    if as_json:
        print(json.dumps(report))
    else:
        _print(report, scores)


def _policy(changes: list[str]) -> Recovery:
    known = {field.name: field for field in fields(Recovery) if isinstance(field.default, int)}
    values: dict[str, Any] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in known or isinstance(known[name].default, bool):
            raise UserError(f"--set {change}: there is no threshold {name!r}; there are: {', '.join(_thresholds())}")
        try:
            values[name] = int(value)
        except ValueError:
            raise UserError(f"--set {change}: {value!r} is not a whole number") from None
    return Recovery(**values)


def _thresholds() -> list[str]:
    return [field.name for field in fields(Recovery) if field.name.startswith(("repeat_", "stale_", "repetition_"))]


def _report(fired: dict[str, list[Fired]], labels: dict[str, dict[str, bool]], scores: list[Score]) -> dict[str, Any]:
    labelled = {run_id: labels[run_id] for run_id in fired if run_id in labels}
    general = {run_id: said[ANY] for run_id, said in labelled.items() if ANY in said}
    return {
        "runs": len(fired),
        "labelled": len(labelled),
        "scores": [counted.to_dict() for counted in scores],
        "firings": {
            run_id: [
                {
                    "turn": found.turn,
                    "detector": found.firing.detector,
                    "grade": found.firing.grade,
                    "detail": found.firing.detail,
                }
                for found in of_run
            ]
            for run_id, of_run in fired.items()
            if of_run
        },
        "false_alarms": [run_id for run_id, stuck in general.items() if not stuck and fired[run_id]],
        "missed": [run_id for run_id, stuck in general.items() if stuck and not fired[run_id]],
        "fired_unlabelled": [run_id for run_id, of_run in fired.items() if of_run and run_id not in labels],
    }


def _print(report: dict[str, Any], scores: list[Score]) -> None:
    print(f"{report['runs']} runs, {report['labelled']} of them labelled, {len(report['firings'])} with a firing")
    table = Table(box=None, pad_edge=False)
    for column in ("detector", "from grade", "right", "false alarms", "missed", "quiet", "precision", "recall"):
        table.add_column(column, justify="left" if column in ("detector", "from grade") else "right")
    for row in scores:
        counts = (row.right, row.false_alarms, row.missed, row.quiet)
        if any(counts):
            table.add_row(row.detector, row.grade, *map(str, counts), _share(row.precision), _share(row.recall))
    if report["labelled"]:
        console = Console(highlight=False)
        console.width = max(console.width, 90)
        console.print(table)
    for name, words in (("false_alarms", "fired, and were not stuck"), ("missed", "were stuck, and nothing fired")):
        if report[name]:
            print(f"{words}: {printable(', '.join(report[name][:SHOWN_RUNS]))}")
    waiting = report["fired_unlabelled"]
    if waiting:
        print(f"no label yet: {printable(', '.join(waiting[:SHOWN_RUNS]))}", file=sys.stderr)
        print("look at one with `daneel transcripts show ID`, then `daneel transcripts label ID yes|no`", file=sys.stderr)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
