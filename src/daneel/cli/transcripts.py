"""`daneel transcripts`: runs that were kept, to look at and to export."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from daneel.cli.lazy import lazy_group
from daneel.cli.run_view import SHOWN_CHARS, RunView, printable
from daneel.errors import UserError
from daneel.harness import transcript_export as export
from daneel.harness.run_record import Event
from daneel.harness.transcript import EventRow, RunRow, TranscriptStore, default_path

MIN_WIDTH = 100


class Format(StrEnum):
    jsonl = "jsonl"
    atif = "atif"
    openai = "openai"


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""
    group = typer.Typer(
        cls=lazy_group(
            {
                "replay": "daneel.cli.replay",
                "label": "daneel.cli.detectors",
                "replay-detectors": "daneel.cli.detectors",
            }
        ),
        no_args_is_help=True,
        help="Runs that were kept: list, show, export, replay.",
        rich_markup_mode=None,
    )
    group.command("list")(_list)
    group.command("show")(_show)
    group.command("export")(_export)
    group.command("bytes")(_bytes)
    app.add_typer(group, name="transcripts")


def _list(
    limit: int = typer.Option(20, help="At most so many, the newest first."),
    as_json: bool = typer.Option(False, "--json", help="One JSON list on standard output."),
) -> None:
    """List runs, the newest first."""
    with TranscriptStore() as store:
        runs = store.runs(limit=limit)
    if as_json:
        print(json.dumps([export.run_object(run) for run in runs]))
        return
    if not runs:
        print(f"No runs yet in {default_path()}.")
        return
    console = _console()
    table = Table(box=None, pad_edge=False)
    for column in ("id", "started", "state", "turns", "harness", "goal", "prompt"):
        table.add_column(column, no_wrap=column != "prompt", overflow="ellipsis")
    for run in runs:
        started = datetime.fromtimestamp(run.started_at).strftime("%Y-%m-%d %H:%M")
        about = [str(run.about.get(name) or "") for name in ("harness", "goal", "prompt")]
        cells = (run.id, started, run.state, str(run.outcome.get("turns", "")), *about)
        table.add_row(*(Text(printable(" ".join(cell.split()))) for cell in cells))
    console.print(table)


def _show(
    run_id: str = typer.Argument(..., metavar="ID", help="A run's id, or how it starts; `last` for the newest."),
    turn: int | None = typer.Option(None, help="Only this turn."),
    full: bool = typer.Option(False, "--full", help="Long calls and results in full."),
    as_json: bool = typer.Option(False, "--json", help="The run with all its events as one JSON object."),
) -> None:
    """Show one run as it went, turn by turn: which tools the model saw, what it said, what was called and came back."""
    with TranscriptStore() as store:
        run = store.find(run_id)
        events = store.events(run.id)
    if as_json:
        print(json.dumps(export.as_object(run, events)))
        return
    _print_run(run, [row for row in events if turn in (None, row.event.turn)], full=full)


def _print_run(run: RunRow, events: list[EventRow], *, full: bool) -> None:
    console = _console()
    view = RunView(console, streams=False, shown_chars=None if full else SHOWN_CHARS)
    names = ", ".join(f"{name} {run.about[name]}" for name in ("harness", "goal", "model", "server") if run.about.get(name))
    console.print(Text(printable(f"run {run.id} ({names})"), style="bold"))
    seen: list[str] = []
    for row in events:
        message = row.event.data.get("message", {})
        if row.event.kind == "message" and message.get("role") in ("system", "user"):
            console.print(Text(printable(f"{message['role']}: {message['content']}"), style="bold"), soft_wrap=True)
        elif row.event.kind == "request":
            seen, before = _visible(row.event), seen
            tools = f", tools: {', '.join(seen) or 'none'}" if seen != before else ""
            console.print(Text(printable(f"— turn {row.event.turn}{tools}"), style="dim"), soft_wrap=True)
        view.on_event(row.event)
        if row.event.kind == "reply":
            console.print(Text(_cost(row.event.data), style="dim"), soft_wrap=True)
    detail = f" ({run.outcome['detail']})" if run.outcome.get("detail") else ""
    console.print(Text(printable(f"{run.state}{detail}"), style="dim"), soft_wrap=True)


def _visible(request: Event) -> list[str]:
    """The tools of a request, by name; those whose calls would be refused in brackets."""
    refused = request.data.get("refused_tools") or []
    return [f"({name})" if name in refused else str(name) for name in request.data.get("tools") or []]


def _cost(reply: dict[str, Any]) -> str:
    """What a turn took, as far as the server said."""
    usage = reply.get("usage")
    parts = [f"{reply.get('duration_s') or 0:.1f} s"]
    if usage:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        parts.insert(0, f"{usage['prompt_tokens']} tokens in ({cached} from cache), {usage['completion_tokens']} out")
    return f"  {', '.join(parts)}"


def _bytes(
    run_id: str = typer.Argument(..., metavar="ID", help="A run's id, or how it starts; `last` for the newest."),
    turn: int | None = typer.Option(None, help="Only this turn's."),
) -> None:
    """Write what the server sent, byte for byte, to standard output. Kept only of runs with --keep-bytes."""
    with TranscriptStore() as store:
        run = store.find(run_id)
        kept = store.server_bytes(run.id, turn=turn)
    if not kept:
        raise UserError(f"run {run.id}: nothing of what the server sent was kept; `daneel run --keep-bytes` keeps it")
    for data in kept:
        sys.stdout.buffer.write(data)


def _export(
    run_ids: list[str] = typer.Argument(None, metavar="[ID]…", help="Runs; all of them when none is named."),
    form: Format = typer.Option(
        Format.jsonl,
        "--format",
        help="jsonl: every event. atif: a trajectory per line. openai: messages and tools, a line per run.",
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="Into this file, which must not exist yet."),
) -> None:
    """Export runs as JSON lines."""
    with TranscriptStore() as store:
        runs = [store.find(run_id) for run_id in run_ids] if run_ids else store.runs()[::-1]
        lines = (line for run in runs for line in _lines(form, run, store.events(run.id)))
        if output is None:
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise UserError(f"cannot write {output}: {error.strerror or error}") from error


def _lines(form: Format, run: RunRow, events: list[EventRow]) -> Iterable[str]:
    if form is Format.jsonl:
        return export.jsonl(run, events)
    return [export.atif(run, events) if form is Format.atif else export.openai(run, events)]


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, MIN_WIDTH)
    return console
