"""`daneel gate`: fail where a change makes a harness worse than a stored baseline. For CI."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TextIO

import msgspec
import typer

from daneel.bench import compare_live
from daneel.bench import gate as bench_gate
from daneel.bench.compare import Comparison, Question
from daneel.bench.identity_diff import Side
from daneel.bench.plan import Plan, plan_of
from daneel.bench.sources import Sources
from daneel.bench.store import TrialStore
from daneel.cli import compare_report as report
from daneel.cli.approve import NoSandbox
from daneel.cli.arms import chosen, follow, split, stored_side
from daneel.cli.connection import INTERRUPTED, clean_stdout
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.cli.signals import TERMINATED, ends_on_sigterm
from daneel.cli.trial_runs import Site, check_sources, find_site, hold, runner_of
from daneel.cli.values import given
from daneel.errors import UserError
from daneel.harness.files import load

MAX_PAIRS = 100


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("gate")
    def _gate(
        file: str = typer.Argument(..., metavar="FILE[:HARNESS]", help="The harness as it is now."),
        baseline: str = typer.Option(
            ..., metavar="ID[:HARNESS]", help="A stored measurement of it as it was; `last`: the newest of `daneel measure`."
        ),
        max_pairs: int = typer.Option(MAX_PAIRS, help="Use at most so many of the baseline's trials."),
        noninferior: float | None = typer.Option(
            None, metavar="MARGIN", help="Pass only if it is shown not to be worse by this or more; 0.05, say."
        ),
        alpha: float = typer.Option(0.05, help="The probability of failing a change that makes nothing worse."),
        parallel: int = typer.Option(1, help="Trials at the same time, each in a process of its own."),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        temperature: float | None = typer.Option(None, help="As it was in the baseline  [default: the harness's own]"),
        first_tool_choice: str | None = typer.Option(
            None, "--tool-choice", "--first-tool-choice", help="As it was in the baseline: auto, required or a tool's name."
        ),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output instead of the report."),
        no_sandbox: NoSandbox = False,
    ) -> None:
        """Fail when a harness has become worse. Runs trials with the goals and seeds of a stored baseline, on the same model.

        It stops as soon as it is known; a baseline of 50 trials or more can show what matters. Without --noninferior it fails
        only on a regression that is shown: nothing shown is a pass.

        Exit codes: 0 passed. 1 failed: a regression was shown, or what --noninferior asks was not, or the two lose trials at
        different rates. 2 bad input, no server, or a baseline of another model or goal. 130 Ctrl-C. 143 told to end (SIGTERM).
        """
        question = Question(max_pairs=max_pairs, alpha=alpha, noninferior=noninferior)
        changes = given(temperature=temperature, first_tool_choice=first_tool_choice, sandbox=False if no_sandbox else None)
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            store = stack.enter_context(TrialStore())
            path, name = split(file)
            name = name or str(load(path).harness().name)
            stored = stored_side(store, baseline, kind="measure", arm=name)
            goals = list(dict.fromkeys(trial.goal for trial in stored.trials))
            sources = chosen([f"{path}:{name}"], goals=goals, changes=changes)
            check_sources(sources)
            site = find_site(stack, server=server, serve=serve, model=model, door=Door(key, key_file, ca_cert, insecure_http))
            plan = _plan(sources, site, stored, question)
            bench_gate.require_same(plan, stored)
            runner = runner_of(stack, plan, store, site, parallel=parallel)
            hold(stack, plan)
            store.add_plan(plan)
            rounds = bench_gate.rounds_for(stored, question)
            comparison = bench_gate.comparison_of(plan.arms[0].name, stored, rounds, question)
            out = report.console(quiet=as_json)
            report.print_plan(out, plan, comparison, server=site.url)
            places = bench_gate.slots(comparison, plan, rounds)
            interrupted = follow(comparison, compare_live.run(comparison, runner, places), plan)
            report.print_answers(out, comparison, interrupted=interrupted)
            code = _conclude(comparison, plan, stdout if as_json else None, interrupted=interrupted)
            out.print({0: "[bold green]passed[/]", 1: "[bold red]failed[/]"}.get(code, ""))
        raise typer.Exit(TERMINATED if sigterm.came else code)


def _plan(sources: Sources, site: Site, baseline: Side, question: Question) -> Plan:
    if len(sources.arms) != 1:
        raise UserError(f"a gate is for one harness, not {len(sources.arms)}")
    return plan_of(
        sources,
        site.model,
        kind=bench_gate.KIND,
        num_trials=question.max_pairs,
        base_seed=baseline.trials[0].seed,
        servers=site.named_servers,
        serve=site.serve,
        asked_model=site.asked_model,
        options={"question": msgspec.to_builtins(question), "baseline": baseline.label},
    )


def _conclude(comparison: Comparison, plan: Plan, told: TextIO | None, *, interrupted: bool) -> int:
    (answer,) = comparison.answers()
    passed = bench_gate.passes(answer, comparison.question)
    if told is not None:
        said = report.as_object(plan, comparison, passed=passed and not interrupted, interrupted=interrupted)
        print(msgspec.json.encode(said).decode(), file=told, flush=True)
    if interrupted:
        return INTERRUPTED
    return 0 if passed else 1
