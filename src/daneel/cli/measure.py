"""`daneel measure`: run every harness of a file on a goal, several times, and print how effective each one is."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from daneel import __version__
from daneel.bench.effectiveness import Summary, summarise
from daneel.bench.record import Trial
from daneel.bench.store import TrialStore
from daneel.bench.trial import Measurement, identify, measure
from daneel.cli import measure_report as report
from daneel.cli.approve import NoSandbox, warn_without_sandbox
from daneel.cli.connection import INTERRUPTED, clean_stdout, connect, open_transcripts
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Servers
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.definition import Goal, Harness
from daneel.harness.files import HarnessFile, load
from daneel.harness.run_record import Run
from daneel.harness.tools.builtin.command import without_sandbox
from daneel.harness.tools.examples import require_sound

MIN_WIDTH = 100
"""Columns for a report that goes into a file or a pipe."""


@dataclass
class Findings:
    """What has been measured so far: every stored trial, and the run of one of them to show."""

    measurement: Measurement
    server: str
    trials: list[Trial] = field(default_factory=list)
    shown: tuple[Trial, Run] | None = None
    interrupted: bool = False

    def add(self, trial: Trial, run: Run) -> None:
        self.trials.append(trial)
        # the shortest that achieved the goal tells most; else the shortest that could be judged; else any
        if self.shown is None or _tells(trial) > _tells(self.shown[0]):
            self.shown = trial, run

    def summaries(self) -> dict[str, Summary]:
        return {
            name: summarise([trial for trial in self.trials if trial.harness == name]) for name in self.measurement.harnesses
        }


def _tells(trial: Trial) -> tuple[int, int]:
    return (0, 0) if trial.achieved is None else (1 + trial.achieved, -trial.turns)


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("measure")
    def _measure(
        file: Path = typer.Argument(..., help="A harness file."),
        goal: str | None = typer.Option(None, help="Which goal of the file; needed when it has several."),
        trials: int = typer.Option(5, help="Trials per harness."),
        harness: list[str] = typer.Option([], help="Only these harnesses of the file (repeatable)."),
        server: Servers = None,
        serve: str | None = typer.Option(None, help="Start and stop a daneel server with this model instead."),
        model: str | None = typer.Option(None, help="Which of the server's models."),
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        temperature: float | None = typer.Option(
            None, help="For every harness  [default: the harness's own, else the server's for the model]"
        ),
        seed: int | None = typer.Option(None, help="Base of all seeds  [default: drawn, and printed]"),
        first_tool_choice: str | None = typer.Option(
            None,
            "--tool-choice",
            "--first-tool-choice",
            help="First turn only: auto, required or a tool's name. Forcing a call hides what names and descriptions do.",
        ),
        show_transcript: bool = typer.Option(False, "--show-transcript", help="Print one trial, message by message."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output instead of the report."),
        no_sandbox: NoSandbox = False,
    ) -> None:
        """Run every harness of FILE on a goal, several times, and print how effective each one is."""
        if trials < 1:
            raise UserError(f"--trials must be at least 1, not {trials}")
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            held = load(file)
            chosen = _goal_of(held, goal)
            harnesses = _harnesses_of(held, harness, temperature, first_tool_choice)
            harnesses = {name: without_sandbox(each) for name, each in harnesses.items()} if no_sandbox else harnesses
            for each in harnesses.values():
                warn_without_sandbox(each)
            require_sound(tool for each in harnesses.values() for tool in each.tools)
            out = _console(quiet=as_json)
            door = Door(key, key_file, ca_cert, insecure_http)
            client, url = connect(stack, server=server, serve=serve, model=model, door=door)
            findings = Findings(
                Measurement(
                    harnesses=harnesses,
                    goal=chosen,
                    model=identify(client),
                    num_trials=trials,
                    base_seed=secrets.randbelow(2**31) if seed is None else seed,
                ),
                url,
            )
            report.print_plan(out, findings.measurement, server=url)
            _run(findings, client, stack, file)
            _tell(out, findings, show_transcript=show_transcript)
            if as_json:
                print(msgspec.json.encode(_as_object(findings)).decode(), file=stdout, flush=True)
        raise typer.Exit(_exit_code(findings))


def _console(*, quiet: bool) -> Console:
    out = Console(highlight=False, quiet=quiet)
    if not out.is_terminal:
        out.width = max(out.width, MIN_WIDTH)
    return out


def _goal_of(held: HarnessFile, name: str | None) -> Goal:
    if name is not None:
        return held.goal(name)
    if len(held.goals) == 1:
        return next(iter(held.goals.values()))
    if not held.goals:
        raise UserError(f"{held.path}: has no goal to measure; write one with @goal(prompt=…)")
    raise UserError(f"{held.path}: holds several goals; say which with --goal: {', '.join(held.goals)}")


def _harnesses_of(
    held: HarnessFile, names: list[str], temperature: float | None, first_tool_choice: str | None
) -> dict[str, Harness]:
    """The harnesses to measure, by name, with the command line's sampling in them, so that H covers it."""
    changed = {}
    for name in dict.fromkeys(names or held.harnesses):
        harness = held.harness(name)
        if temperature is not None:
            harness = harness.with_changes(temperature=temperature)
        if first_tool_choice is not None:
            harness = harness.with_changes(first_tool_choice=first_tool_choice)
        changed[name] = harness
    return changed


def _run(findings: Findings, client: Client, stack: ExitStack, file: Path) -> None:
    """All trials, with a progress bar on standard error. Ctrl-C ends it; what is stored by then is kept and told."""
    measurement = findings.measurement
    store = stack.enter_context(TrialStore())
    about = {"goal": measurement.goal.name, "file": str(file), "server": findings.server, "model": measurement.model.name}
    transcripts = open_transcripts(stack, {**about, "measurement": measurement.id})
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        total = len(measurement.harnesses) * measurement.num_trials
        task = progress.add_task("first trial", total=total)
        try:
            for trial, run in measure(measurement, client=client, store=store, transcripts=transcripts):
                findings.add(trial, run)
                progress.update(task, advance=1, description=_so_far(findings.summaries()))
        except KeyboardInterrupt:
            findings.interrupted = True


def _so_far(summaries: Mapping[str, Summary]) -> str:
    known = [f"{name} {summary.numbers.effectiveness:.2f}" for name, summary in summaries.items() if summary.numbers]
    return escape("E so far: " + ("  ".join(known) or "-"))


def _tell(out: Console, findings: Findings, *, show_transcript: bool) -> None:
    summaries = findings.summaries()
    report.print_results(out, summaries)
    if show_transcript and findings.shown is not None:
        report.print_transcript(out, *findings.shown, summaries=summaries)
    out.print(escape(report.conclusion(findings.measurement, summaries)))
    if findings.interrupted:
        out.print("Interrupted: these are the trials that were finished by then.")


def _as_object(findings: Findings) -> dict[str, Any]:
    """Everything, for `--json`."""
    measurement = findings.measurement
    summaries = findings.summaries()
    return {
        "measurement": measurement.id,
        "daneel": __version__,
        "server": findings.server,
        "model": asdict(measurement.model),
        "goal": {
            "name": measurement.goal.name,
            "prompt": measurement.goal.prompt,
            "hash": measurement.goal.fingerprint(),
        },
        "base_seed": measurement.base_seed,
        "trials_per_harness": measurement.num_trials,
        "interrupted": findings.interrupted,
        "intervals": "95 % Wilson score",
        "harnesses": {
            name: {
                "hash": harness.fingerprint(),
                "temperature": harness.temperature,
                "first_tool_choice": harness.first_tool_choice,
                "tools": [{"name": tool.name, "description": tool.description} for tool in harness.tools],
                **msgspec.to_builtins(summaries[name]),
            }
            for name, harness in measurement.harnesses.items()
        },
        "trials": findings.trials,
        "conclusion": report.conclusion(measurement, summaries),
    }


def _exit_code(findings: Findings) -> int:
    if findings.interrupted:
        return INTERRUPTED
    return 0 if any(trial.scored for trial in findings.trials) else 1
