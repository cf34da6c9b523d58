"""`daneel compare`: which of some harnesses is better, from pairs of trials, stopped as soon as it is known."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TextIO

import msgspec
import typer

from daneel.bench import compare_live
from daneel.bench.compare import REFUSED, Comparison, Question
from daneel.bench.compare_stored import compare_stored
from daneel.bench.plan import Plan, plan_of
from daneel.bench.record import Trial
from daneel.bench.runners.runner import Runner
from daneel.bench.sources import Sources
from daneel.bench.store import TrialStore
from daneel.cli import compare_report as report
from daneel.cli.approve import NoSandbox
from daneel.cli.arms import chosen, follow, is_measurement, stored_side
from daneel.cli.connection import INTERRUPTED, clean_stdout
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.cli.signals import TERMINATED, ends_on_sigterm
from daneel.cli.trial_runs import Site, check_sources, find_site, hold, require_same_model, runner_of, unfinished
from daneel.cli.values import given
from daneel.errors import UserError

MAX_PAIRS = 200
MAX_PAIRS_NONINFERIOR = 1000
"""A small margin takes many pairs: with 0.02 some 200, were all trials alike."""
STORED_PAIRS = 10**9
"""All there are."""


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("compare")
    def _compare(
        operands: list[str] = typer.Argument(
            None, metavar="A B", help="Harness files: FILE (all its harnesses) or FILE:HARNESS. Or two stored measurements."
        ),
        goal: list[str] = typer.Option([], help="Only these goals of the files (repeatable). Each pair draws one of them."),
        max_pairs: int | None = typer.Option(
            None, help=f"Stop after so many pairs  [default: {MAX_PAIRS}; with --noninferior {MAX_PAIRS_NONINFERIOR}]"
        ),
        margin: float | None = typer.Option(None, help="Stop also when the difference in E is shown to be smaller than this."),
        noninferior: float | None = typer.Option(
            None, metavar="MARGIN", help="Ask only whether A is not worse than B by this or more; 0.02, say."
        ),
        fixed: int | None = typer.Option(None, metavar="N", help="Run N pairs, and look at them once (sign-flip test)."),
        alpha: float = typer.Option(0.05, help="The probability of a wrong verdict that is accepted."),
        against: str | None = typer.Option(None, metavar="HARNESS", help="Compare all others with this one, not each two."),
        parallel: int = typer.Option(1, help="Trials at the same time, each in a process of its own."),
        seed: int | None = typer.Option(None, help="Base of all seeds, draws and orders  [default: drawn, and printed]"),
        resume: str | None = typer.Option(
            None, metavar="ID", help="Go on with a comparison: its id, or `last`. --max-pairs may then be larger."
        ),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        temperature: float | None = typer.Option(None, help="For every harness  [default: the harness's own]"),
        first_tool_choice: str | None = typer.Option(
            None, "--tool-choice", "--first-tool-choice", help="First turn only: auto, required or a tool's name."
        ),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output instead of the report."),
        no_sandbox: NoSandbox = False,
    ) -> None:
        """Which harness is better? Runs pairs of trials (same goal, same seed) until it is known, or --max-pairs are used up.

        The answer is valid although it is looked at after every pair. A and B may also be stored measurements, ID or
        ID:HARNESS: then their trials of equal goal and seed are the pairs, and nothing is run.

        Exit codes: 0 whatever the verdict. 1 no pair could be scored, or the arms lose trials at different rates. 2 bad input,
        or no server. 130 Ctrl-C. 143 told to end (SIGTERM). After the last three, `daneel compare --resume ID` goes on.
        """
        changes = given(temperature=temperature, first_tool_choice=first_tool_choice, sandbox=False if no_sandbox else None)
        asked = _Asked(
            operands=operands or [],
            goals=goal,
            changes=changes,
            max_pairs=max_pairs,
            margin=margin,
            noninferior=noninferior,
            fixed=fixed,
            alpha=alpha,
            against=against,
            seed=seed,
        )
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            store = stack.enter_context(TrialStore())
            told = stdout if as_json else None
            if resume is None and asked.operands and all(map(is_measurement, asked.operands)):
                raise typer.Exit(_compare_stored(store, asked, told))
            door = Door(key, key_file, ca_cert, insecure_http)
            before: list[Trial] = []
            if resume is None:
                sources = asked.sources()
                check_sources(sources)
                site = find_site(stack, server=server, serve=serve, model=model, door=door)
                plan, is_new = asked.plan(sources, site), True
            else:
                asked.require_nothing()
                begun, sources = unfinished(store, resume)
                compare_live.comparison_of(begun)
                check_sources(sources)
                served = serve if server else serve or begun.serve
                model = model or begun.asked_model
                site = find_site(stack, server=server or begun.servers, serve=served, model=model, door=door)
                require_same_model(begun, site)
                hold(stack, begun)
                before = compare_live.trials_of(store, begun)
                plan = compare_live.extended(begun, before, max_pairs)
                is_new = plan is not begun
            runner = runner_of(stack, plan, store, site, parallel=parallel)
            if is_new:
                hold(stack, plan)
                store.add_plan(plan)
            code = _compare_live(plan, before, runner, site.url, told)
        raise typer.Exit(TERMINATED if sigterm.came else code)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the command line says of a new comparison."""

    operands: list[str]
    goals: list[str]
    changes: dict[str, Any]
    max_pairs: int | None
    margin: float | None
    noninferior: float | None
    fixed: int | None
    alpha: float
    against: str | None
    seed: int | None

    def question(self, default_pairs: int | None = None) -> Question:
        """Raises `UserError`."""
        if self.fixed is not None and self.max_pairs is not None:
            raise UserError("--fixed and --max-pairs exclude each other: a fixed number is one")
        if default_pairs is None:
            default_pairs = MAX_PAIRS if self.noninferior is None else MAX_PAIRS_NONINFERIOR
        given = self.fixed if self.fixed is not None else self.max_pairs
        return Question(
            max_pairs=default_pairs if given is None else given,
            alpha=self.alpha,
            margin=self.margin,
            noninferior=self.noninferior,
            fixed=self.fixed is not None,
            against=self.against,
        )

    def sources(self) -> Sources:
        """The arms and goals, which do make a comparison. Raises `UserError`."""
        if not self.operands:
            raise UserError("name what to compare: A B, each FILE or FILE:HARNESS, or one FILE with several harnesses")
        if (asked := self.question()).max_pairs > compare_live.MAX_ROUNDS:
            raise UserError(f"the number of pairs must be at most {compare_live.MAX_ROUNDS}, not {asked.max_pairs}")
        sources = chosen(self.operands, goals=self.goals, changes=self.changes)
        Comparison([arm.name for arm in sources.arms], asked, [])
        return sources

    def plan(self, sources: Sources, site: Site) -> Plan:
        question = self.question()
        return plan_of(
            sources,
            site.model,
            kind=compare_live.KIND,
            num_trials=question.max_pairs,
            base_seed=secrets.randbelow(2**31) if self.seed is None else self.seed,
            servers=site.named_servers,
            serve=site.serve,
            asked_model=site.asked_model,
            options=compare_live.options(question),
        )

    def require_nothing(self) -> None:
        """With --resume all of it is known already, but for --max-pairs. Raises `UserError`."""
        asked = (self.operands, self.goals, self.changes, self.margin, self.noninferior, self.against)
        if any(asked) or self.fixed is not None or self.seed is not None or self.alpha != 0.05:
            raise UserError("--resume goes on with what was asked then; of the question, give nothing but --max-pairs")


def _compare_live(plan: Plan, before: list[Trial], runner: Runner, url: str, told: TextIO | None) -> int:
    comparison = compare_live.comparison_of(plan)
    out = report.console(quiet=told is not None)
    report.print_plan(out, plan, comparison, server=url)
    places = compare_live.slots(comparison, plan)
    interrupted = follow(comparison, compare_live.run(comparison, runner, places, before), plan)
    report.print_answers(out, comparison, interrupted=interrupted)
    if interrupted:
        out.print(f"To go on: daneel compare --resume {plan.id}")
    if told is not None:
        _print_object(report.as_object(plan, comparison, server=url, interrupted=interrupted), told)
    return INTERRUPTED if interrupted else exit_code(comparison)


def _compare_stored(store: TrialStore, asked: _Asked, told: TextIO | None) -> int:
    if len(asked.operands) != 2:
        raise UserError(f"stored measurements are compared two at a time, not {len(asked.operands)}")
    if asked.goals or asked.changes or asked.against or asked.seed is not None:
        raise UserError("nothing is run where both are stored measurements: --goal, --against, --seed and sampling say nothing")
    sides = [stored_side(store, operand) for operand in asked.operands]
    comparison = compare_stored(sides, asked.question(STORED_PAIRS))
    report.print_answers(report.console(quiet=told is not None), comparison)
    if told is not None:
        _print_object(report.as_object(None, comparison, measurements=[side.label for side in sides]), told)
    return exit_code(comparison)


def exit_code(comparison: Comparison) -> int:
    """0, unless nothing could be said for want of trials that count."""
    answers = comparison.answers()
    return 1 if all(answer.num_pairs == 0 or answer.verdict == REFUSED for answer in answers) else 0


def _print_object(told: dict[str, Any], stdout: TextIO) -> None:
    print(msgspec.json.encode(told).decode(), file=stdout, flush=True)
