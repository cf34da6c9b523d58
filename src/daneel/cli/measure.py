"""`daneel measure`: run every harness of some files on some goals, several times, and print how effective each one is."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from daneel import __version__
from daneel.bench.effectiveness import value
from daneel.bench.plan import Plan, in_order, plan_of, remaining
from daneel.bench.record import Trial
from daneel.bench.runners.runner import Runner
from daneel.bench.slot import settles
from daneel.bench.sources import Sources, gather
from daneel.bench.store import TrialStore
from daneel.cli import measure_report as report
from daneel.cli.approve import NoSandbox
from daneel.cli.connection import INTERRUPTED, clean_stdout
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.cli.signals import TERMINATED, ends_on_sigterm
from daneel.cli.trial_runs import Site, check_sources, find_site, hold, progress_bar, require_same_model, runner_of, unfinished
from daneel.cli.values import given
from daneel.errors import UserError
from daneel.harness.transcript import TranscriptStore

MIN_WIDTH = 100
"""Columns for a report that goes into a file or a pipe."""
MAX_TRIALS = 100_000
"""Of each harness on each goal: all places of a plan are held in memory."""


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


KIND = "measure"
"""Of a `Plan` that this command made."""


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("measure")
    def _measure(
        files: list[Path] = typer.Argument(None, metavar="[FILE]…", help="Harness files."),
        goal: list[str] = typer.Option([], help="Only these goals of the files (repeatable)."),
        trials: int = typer.Option(5, help="Trials of each harness on each goal."),
        harness: list[str] = typer.Option([], help="Only these harnesses of the files (repeatable)."),
        parallel: int = typer.Option(1, help="Trials at the same time, each in a process of its own."),
        resume: str | None = typer.Option(
            None, metavar="ID", help="Go on with a measurement that was cut short: its id, how that starts, or `last`."
        ),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
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
        """Run every harness of the files on their goals, several times, and print how effective each one is.

        A trial that fails for reasons of server or network is run again, at most three times, and never scored.

        Exit codes: 0 something was scored. 1 nothing was. 2 bad input, or no server. 130 Ctrl-C. 143 told to end (SIGTERM).
        After the last three, `daneel measure --resume ID` goes on.
        """
        if not 1 <= trials <= MAX_TRIALS:
            raise UserError(f"--trials must be from 1 to {MAX_TRIALS}, not {trials}")
        changes = given(temperature=temperature, first_tool_choice=first_tool_choice, sandbox=False if no_sandbox else None)
        asked = _Asked(files or [], goal, harness, changes, trials, seed)
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            door = Door(key, key_file, ca_cert, insecure_http)
            store = stack.enter_context(TrialStore())
            if resume is None:
                sources = asked.sources()
                check_sources(sources)
                site = find_site(stack, server=server, serve=serve, model=model, door=door)
                plan = asked.plan(sources, site)
            else:
                asked.require_nothing()
                plan, sources = unfinished(store, resume)
                if plan.kind != KIND:
                    raise UserError(f"{plan.id} was made by `daneel {plan.kind}`; `daneel measure` goes on only with its own")
                check_sources(sources)
                served = serve if server else serve or plan.serve
                site = find_site(stack, server=server or plan.servers, serve=served, model=model or plan.asked_model, door=door)
                require_same_model(plan, site)
            hold(stack, plan)
            runner = runner_of(stack, plan, store, site, parallel=parallel)
            if resume is None:
                store.add_plan(plan)
            findings = Findings(plan, site.url, store.trials(plan.id))
            out = _console(quiet=as_json)
            report.print_plan(out, plan, server=site.url)
            _run(findings, runner, store)
            _tell(out, findings, show_transcript=show_transcript)
            if as_json:
                print(msgspec.json.encode(_as_object(findings)).decode(), file=stdout, flush=True)
        raise typer.Exit(TERMINATED if sigterm.came else _exit_code(findings))


@dataclass(frozen=True)
class _Asked:
    """What the command line says of a new measurement."""

    files: list[Path]
    goals: list[str]
    harnesses: list[str]
    changes: dict[str, Any]
    num_trials: int
    seed: int | None

    def sources(self) -> Sources:
        if not self.files:
            raise UserError("no harness file is given; or give --resume ID to go on with a measurement")
        return gather(self.files, goals=self.goals, harnesses=self.harnesses, changes=self.changes)

    def require_nothing(self) -> None:
        """With --resume all of it is known already. Raises `UserError`."""
        if self.files or self.goals or self.harnesses or self.changes or self.seed is not None:
            raise UserError("--resume goes on with what was planned then; give no files, goals, harnesses, sampling or seed")

    def plan(self, sources: Sources, site: Site) -> Plan:
        return plan_of(
            sources,
            site.model,
            kind=KIND,
            num_trials=self.num_trials,
            base_seed=secrets.randbelow(2**31) if self.seed is None else self.seed,
            servers=site.named_servers,
            serve=site.serve,
            asked_model=site.asked_model,
        )


def _console(*, quiet: bool) -> Console:
    out = Console(highlight=False, quiet=quiet)
    if not out.is_terminal:
        out.width = max(out.width, MIN_WIDTH)
    return out


def _run(findings: Findings, runner: Runner, store: TrialStore) -> None:
    """All trials, with a progress bar on standard error. Ctrl-C ends it; what is stored by then is kept and told."""
    plan = findings.plan
    slots = list(remaining(plan.slots(), findings.trials))
    so_far = _SoFar(plan, findings.trials)
    try:
        with progress_bar(len(slots)) as update, closing(runner.run(iter(slots))) as trials:
            for trial in trials:
                findings.trials.append(trial)
                update(settles(trial), so_far.add(trial))
    except KeyboardInterrupt:
        findings.interrupted = True
    except UserError as error:
        hint = f"; what is stored by then is kept: daneel measure --resume {plan.id}"
        raise UserError(f"{error}{hint}") from error
    findings.trials = in_order(plan.slots(), store.trials(plan.id))


class _SoFar:
    """E of each arm, kept up to date at the cost of one trial: the mean over its goals of their E, as far as they have any."""

    def __init__(self, plan: Plan, trials: Sequence[Trial]) -> None:
        self._values: dict[str, dict[str, tuple[float, int]]] = {arm.name: {} for arm in plan.arms}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> str:
        """Count the trial, if it is scored; gives what to say of all so far."""
        if trial.scored:
            goals = self._values[trial.harness]
            total, number = goals.get(trial.goal, (0.0, 0))
            goals[trial.goal] = (total + value(trial), number + 1)
        known = [
            f"{name} {fmean(total / number for total, number in goals.values()):.2f}"
            for name, goals in self._values.items()
            if goals
        ]
        return "E so far: " + ("  ".join(known) or "-")


def _tell(out: Console, findings: Findings, *, show_transcript: bool) -> None:
    plan, trials = findings.plan, findings.trials
    report.print_results(out, plan, trials)
    if show_transcript and (shown := findings.shown()) is not None and shown.run_id is not None:
        report.print_transcript(out, shown, _messages(shown.run_id), plan=plan, trials=trials)
    out.print(escape(report.conclusion(plan, trials)))
    if findings.interrupted:
        out.print("Interrupted: these are the trials that were finished by then.")
        out.print(f"To go on: daneel measure --resume {plan.id}")


def _messages(run_id: str) -> list[dict[str, Any]]:
    with TranscriptStore() as store:
        return [row.event.data["message"] for row in store.events(run_id) if row.event.kind == "message"]


def _as_object(findings: Findings) -> dict[str, Any]:
    """Everything, for `--json`."""
    plan = findings.plan
    numbers = report.results_object(plan, findings.trials)
    facts = ("name", "prompt", "hash", "held_out", "min_turns")
    goals = [{name: getattr(goal, name) for name in facts} for goal in plan.goals]
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
        "intervals": "95 %: Clopper-Pearson for E, Wilson for P",
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
