"""`daneel transcripts replay`: run a stored run's harness again with the replies on record, and say what is otherwise."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from daneel.cli.connection import clean_stdout
from daneel.cli.resume import file_of, folder_of, harness_of
from daneel.cli.run_view import RunView, printable
from daneel.harness.replay import Difference, Replayed, replay
from daneel.harness.resume import differences
from daneel.harness.transcript import TranscriptStore

SHOWN_CHARS = 600


def register(group: typer.Typer) -> None:
    """Add this file's commands to the group `transcripts`."""

    @group.command("replay")
    def _replay(
        run_id: str = typer.Argument(..., metavar="ID", help="A run's id, or how it starts; `last` for the newest."),
        file: Path | None = typer.Option(None, help="Another harness file than the run's own."),
        all_tools: bool = typer.Option(False, "--all-tools", help="Also run tools again that change something."),
        quiet: bool = typer.Option(False, "--quiet", "-q", help="Only the differences, not the run."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, and nothing else there."),
    ) -> None:
        """Run a stored run's harness again with the model's replies on record, and say what comes out otherwise.

        No server is asked. Tools that only read run again; of any other the result on record stands. Exit code 0 when all is as
        it was, 1 when something differs.
        """
        with TranscriptStore() as store:
            row = store.find(run_id)
            events = store.events(row.id)
        chosen = file.resolve() if file is not None else None
        with clean_stdout(as_json) as out, chdir(folder_of(row)):
            harness = harness_of(row, file_of(row, chosen))
            console = Console(quiet=as_json or quiet, highlight=False)
            replayed = replay(row, events, harness, all_tools=all_tools, observer=RunView(console, streams=False))
            changed = differences(row, harness)
            if as_json:
                print(json.dumps(_as_object(row.id, changed, replayed), default=str), file=out, flush=True)
            else:
                _print(Console(highlight=False), changed, replayed)
        raise typer.Exit(1 if replayed.differences else 0)


def _as_object(run_id: str, changed: list[str], replayed: Replayed) -> dict[str, Any]:
    return {
        "id": run_id,
        "same": not replayed.differences,
        "changed_in_harness": changed,
        "differences": [difference.to_dict() for difference in replayed.differences],
        "stop_reason": replayed.run.stop_reason,
        "turns": replayed.run.turns,
    }


def _print(console: Console, changed: list[str], replayed: Replayed) -> None:
    if changed:
        console.print(Text(printable(f"the harness has changed: {', '.join(changed)}"), style="yellow"), soft_wrap=True)
    for difference in replayed.differences:
        console.print(Text(f"turn {difference.turn}: {difference.what}", style="bold"), soft_wrap=True)
        for sign, value, style in (("-", difference.recorded, "red"), ("+", difference.now, "green")):
            console.print(Text(printable(f"  {sign} {_shown(difference, value)}"), style=style), soft_wrap=True)
    number = len(replayed.differences)
    console.print(Text("no differences" if not number else f"{number} difference{'s' if number > 1 else ''}", style="bold"))


def _shown(difference: Difference, value: Any) -> str:
    """A side of a difference: of two objects, only the fields in which they differ."""
    if value is None:
        return "(nothing)"
    other = difference.now if value is difference.recorded else difference.recorded
    if isinstance(value, dict) and isinstance(other, dict):
        value = {name: field for name, field in value.items() if name in ("id", "name") or other.get(name) != field}
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
