"""`daneel measure`: run every harness of some files on some goals, several times, and print how effective each one is."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from daneel import __version__
from daneel.bench.goal_check import require_sound_goals
from daneel.bench.plan import Plan, arm_facts, goal_facts, model_facts
from daneel.bench.record import Trial
from daneel.bench.runners.inline import InlineRunner
from daneel.bench.runners.runner import Runner
from daneel.bench.slot import Slot, settles
from daneel.bench.sources import gather
from daneel.bench.store import TrialStore
from daneel.bench.trial import identify
from daneel.cli import measure_report as report
from daneel.cli.approve import NoSandbox, warn_without_sandbox
from daneel.cli.connection import INTERRUPTED, clean_stdout, connect, open_transcripts
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Servers
from daneel.errors import UserError
from daneel.harness.recorder import TranscriptSink
from daneel.harness.tools.examples import require_sound
from daneel.harness.transcript import TranscriptStore

MIN_WIDTH = 100
"""Columns for a report that goes into a file or a pipe."""


@dataclass
class Findings:
    """What has been measured so far: every stored trial."""

    plan: Plan
    server: str
    trials: list[Trial] = field(default_factory=list)
    interrupted: bool = False

    def shown(self) -> Trial | None:
        """The trial that tells most: the shortest that achieved the goal, else the shortest that could be judged."""
        return max(self.trials, key=_tells, default=None)


def _tells(trial: Trial) -> tuple[int, int]:
    return (0, 0) if trial.achieved is None else (1 + trial.achieved, -trial.turns)


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("measure")
    def _measure(
        files: list[Path] = typer.Argument(..., metavar="FILE…", help="Harness files."),
        goal: list[str] = typer.Option([], help="Only these goals of the files (repeatable)."),
        trials: int = typer.Option(5, help="Trials of each harness on each goal."),
        harness: list[str] = typer.Option([], help="Only these harnesses of the files (repeatable)."),
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
        """Run every harness of FILE… on goals, several times, and print how effective each one is."""
        if trials < 1:
            raise UserError(f"--trials must be at least 1, not {trials}")
        changes = {"temperature": temperature, "first_tool_choice": first_tool_choice, "sandbox": False if no_sandbox else None}
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            sources = gather(
                files, goals=goal, harnesses=harness, changes={name: v for name, v in changes.items() if v is not None}
            )
            for each in sources.harnesses.values():
                warn_without_sandbox(each)
            require_sound(tool for each in sources.harnesses.values() for tool in each.tools)
            require_sound_goals(sources.goals)
            out = _console(quiet=as_json)
            door = Door(key, key_file, ca_cert, insecure_http)
            client, url = connect(stack, server=server, serve=serve, model=model, door=door)
            identity = identify(client)
            plan = Plan(
                kind="measure",
                arms=[arm_facts(arm, sources.harnesses[arm.name]) for arm in sources.arms],
                goals=[goal_facts(each, sources.goal_files[each.name]) for each in sources.goals],
                model=model_facts(identity),
                num_trials=trials,
                base_seed=secrets.randbelow(2**31) if seed is None else seed,
                servers=[] if serve else list(server or []),
                serve=serve,
                asked_model=model,
            )
            store = stack.enter_context(TrialStore())
            store.add_plan(plan)
            findings = Findings(plan, url)
            report.print_plan(out, plan, server=url)
            transcripts = open_transcripts(stack, {"server": url, "model": identity.name, "measurement": plan.id})

            def labelled(slot: Slot) -> TranscriptSink | None:
                if transcripts is None:
                    return None
                return transcripts.store.labelled(**transcripts.labels, goal=slot.goal, file=slot.arm.file, arm=slot.arm.name)

            runner = InlineRunner(
                harnesses=sources.harnesses,
                goals={each.name: each for each in sources.goals},
                client=client,
                model=identity,
                store=store,
                transcripts=labelled,
            )
            _run(findings, runner)
            _tell(out, findings, show_transcript=show_transcript)
            if as_json:
                print(msgspec.json.encode(_as_object(findings)).decode(), file=stdout, flush=True)
        raise typer.Exit(_exit_code(findings))


def _console(*, quiet: bool) -> Console:
    out = Console(highlight=False, quiet=quiet)
    if not out.is_terminal:
        out.width = max(out.width, MIN_WIDTH)
    return out


def _run(findings: Findings, runner: Runner) -> None:
    """All trials, with a progress bar on standard error. Ctrl-C ends it; what is stored by then is kept and told."""
    plan = findings.plan
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("first trial", total=len(plan.arms) * len(plan.goals) * plan.num_trials)
        try:
            for trial in runner.run(plan.slots()):
                findings.trials.append(trial)
                progress.update(task, advance=settles(trial), description=_so_far(findings))
        except KeyboardInterrupt:
            findings.interrupted = True


def _so_far(findings: Findings) -> str:
    summaries = report.summaries_of(findings.plan, findings.trials)
    known = [f"{name} {summary.numbers.effectiveness:.2f}" for name, summary in summaries.items() if summary.numbers]
    return escape("E so far: " + ("  ".join(known) or "-"))


def _tell(out: Console, findings: Findings, *, show_transcript: bool) -> None:
    plan, trials = findings.plan, findings.trials
    report.print_results(out, plan, trials)
    if show_transcript and (shown := findings.shown()) is not None and shown.run_id is not None:
        report.print_transcript(out, shown, _messages(shown.run_id), plan=plan, trials=trials)
    out.print(escape(report.conclusion(plan, trials)))
    if findings.interrupted:
        out.print("Interrupted: these are the trials that were finished by then.")


def _messages(run_id: str) -> list[dict[str, Any]]:
    with TranscriptStore() as store:
        return [row.event.data["message"] for row in store.events(run_id) if row.event.kind == "message"]


def _as_object(findings: Findings) -> dict[str, Any]:
    """Everything, for `--json`."""
    plan = findings.plan
    numbers = report.results_object(plan, findings.trials)
    goals = [
        {**{name: getattr(goal, name) for name in ("name", "prompt", "hash", "held_out", "min_turns")}} for goal in plan.goals
    ]
    return {
        "measurement": plan.id,
        "daneel": __version__,
        "server": findings.server,
        "model": {"name": plan.model.name, "hash": plan.model.hash, "verified": plan.model.verified},
        "goal": goals[0] if len(goals) == 1 else None,
        "goals": goals,
        "base_seed": plan.base_seed,
        "trials_per_harness": plan.num_trials,
        "interrupted": findings.interrupted,
        "intervals": "95 % Wilson score",
        "harnesses": {
            arm.name: {
                "hash": arm.hash,
                "file": arm.arm.file,
                "temperature": arm.temperature,
                "first_tool_choice": arm.first_tool_choice,
                "tools": [
                    {"name": d["function"]["name"], "description": d["function"]["description"]} for d in arm.declarations
                ],
                **numbers[arm.name],
            }
            for arm in plan.arms
        },
        "trials": findings.trials,
        "conclusion": report.conclusion(plan, findings.trials),
    }


def _exit_code(findings: Findings) -> int:
    if findings.interrupted:
        return INTERRUPTED
    return 0 if any(trial.scored for trial in findings.trials) else 1
