"""`daneel tune`: from findings to changes of a harness, tried on pairs of trials; the winner becomes a harness file."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import typer

from daneel.bench.plan import arm_facts, goal_facts, model_facts
from daneel.bench.sources import Sources, gather, harness_of
from daneel.bench.store import TrialStore
from daneel.bench.trial import now
from daneel.bench.tune import written
from daneel.bench.tune.candidates import Propose, no_proposals
from daneel.bench.tune.ledger import LedgerStore, Tuning
from daneel.bench.tune.proposer import Proposer
from daneel.cli import tune_report as report
from daneel.cli.approve import NoSandbox
from daneel.cli.arms import split
from daneel.cli.compare_report import console
from daneel.cli.connection import INTERRUPTED, clean_stdout
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.cli.signals import TERMINATED, ends_on_sigterm
from daneel.cli.trial_runs import Site, check_sources, explain_difference, find_site
from daneel.cli.tune_work import finish, work
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.definition import Goal
from daneel.harness.files import load
from daneel.harness.run_lock import LockHeld, run_lock

MIN_BUDGET, MAX_BUDGET = 10, 100_000
BUDGET_PAIRS = 400


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("tune")
    def _tune(
        operand: str | None = typer.Argument(None, metavar="FILE[:HARNESS]", help="The harness to begin with."),
        goals: list[Path] = typer.Option([], "--goals", metavar="FILE", help="Goals of this harness file, too (repeatable)."),
        goal: list[str] = typer.Option([], help="Only these goals (repeatable). Those held out are kept for confirming."),
        budget_pairs: int = typer.Option(BUDGET_PAIRS, help="Pairs of trials to spend at most, for all there is to do."),
        alpha: float = typer.Option(0.05, help="The probability of keeping anything that is not better."),
        noninferior: float | None = typer.Option(
            None, metavar="MARGIN", help="Also keep simplifications (dropped or merged tools) not worse by this; 0.05, say."
        ),
        out: Path | None = typer.Option(None, metavar="FILE", help="Where the winner goes  [default: FILE's name + _tuned.py]"),
        force: bool = typer.Option(False, "--force", help="Replace that file if it is there."),
        proposer: str | None = typer.Option(
            None, metavar="URL", help="Ask this server for names and descriptions  [default: the one that is measured]"
        ),
        no_proposer: bool = typer.Option(False, "--no-proposer", help="Names and descriptions by fixed rules only."),
        parallel: int = typer.Option(1, help="Trials at the same time, each in a process of its own."),
        seed: int | None = typer.Option(None, help="Base of all seeds and draws  [default: drawn, and printed]"),
        resume: str | None = typer.Option(None, metavar="ID", help="Go on with a tuning: its id (t_…), or `last`."),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output instead of the report."),
        no_sandbox: NoSandbox = False,
    ) -> None:
        """Find changes of a harness that make it better, and write the winner as a new harness file.

        Findings (`daneel lint`, `daneel diagnose`) become changes: drop, merge, rename, describe, reorder, gate, sentences for
        results. A few pairs of trials each screen them; the best are confirmed on the held-out goals, by the test of
        `daneel compare`. Only what is confirmed is kept. The ledger of everything tried is stored.

        Exit codes: 0 done, whether or not anything is kept. 1 no trial could be scored. 2 bad input, or no server. 130 Ctrl-C.
        143 told to end (SIGTERM). After the last three, `daneel tune --resume ID` goes on.
        """
        asked = _Asked(operand, goals, goal, budget_pairs, alpha, noninferior, seed, no_sandbox)
        door = Door(key, key_file, ca_cert, insecure_http)
        where = _Where(server, serve, model, door, parallel, proposer, no_proposer)
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            store = stack.enter_context(TrialStore())
            ledgers = stack.enter_context(LedgerStore())
            begun = None if resume is None else ledgers.load(resume)
            if begun is not None:
                asked.require_nothing()
            sources = asked.sources() if begun is None else _sources_of(begun)
            target = out or _default_out(sources)
            written.refuse_existing(target, force=force)
            check_sources(sources)
            site = where.site(stack, begun)
            tuning = begun or asked.tuning(sources, site)
            _hold(stack, tuning, site)
            propose = where.propose(stack, tuning, ledgers, site)
            ledgers.save(tuning)
            words = console(quiet=as_json)
            report.print_plan(words, tuning, server=site.url)
            interrupted = work(sources, tuning, store, ledgers, site, propose, parallel=parallel)
            file, diff = (None, "") if interrupted else finish(sources, tuning, target, force=force)
            report.print_all(words, tuning, diff, file=file, interrupted=interrupted)
            if as_json:
                told = report.as_object(tuning, diff, file=file, interrupted=interrupted)
                print(msgspec.json.encode(told).decode(), file=stdout, flush=True)
        code = INTERRUPTED if interrupted else _exit_code(tuning)
        raise typer.Exit(TERMINATED if sigterm.came else code)


@dataclass(frozen=True)
class _Where:
    """What the command line says of servers."""

    server: list[str] | None
    serve: str | None
    model: str | None
    door: Door
    parallel: int
    proposer: str | None
    no_proposer: bool

    def site(self, stack: ExitStack, begun: Tuning | None) -> Site:
        """Where trials are run; where they were run before, if nothing else is said. Raises `UserError`."""
        if self.no_proposer and self.proposer is not None:
            raise UserError("--proposer and --no-proposer exclude each other")
        server, serve, model = self.server, self.serve, self.model
        if begun is not None:
            model = model or begun.asked_model
            serve = serve if server else serve or begun.serve
            server = server or (None if serve else begun.servers)
        return find_site(stack, server=server, serve=serve, model=model, door=self.door)

    def propose(self, stack: ExitStack, tuning: Tuning, ledgers: LedgerStore, site: Site) -> Propose:
        """Who proposes names and descriptions, besides the rules."""
        if self.no_proposer:
            return no_proposals
        client = stack.enter_context(
            Client(
                site.servers if self.proposer is None else self.proposer,
                api_key=self.door.read_keys() or None,
                model=site.asked_model if self.proposer is None else None,
                ca_cert=self.door.ca_cert,
                insecure_http=self.door.insecure_http,
            )
        )
        return Proposer(client, tuning, ledgers.save)


@dataclass(frozen=True)
class _Asked:
    """What the command line says of a new tuning."""

    operand: str | None
    goal_files: list[Path]
    goals: list[str]
    budget_pairs: int
    alpha: float
    noninferior: float | None
    seed: int | None
    no_sandbox: bool

    def sources(self) -> Sources:
        """The harness to begin with, as the only arm, and the goals. Raises `UserError`."""
        if not self.operand:
            raise UserError("name the harness to begin with: FILE or FILE:HARNESS; or give --resume ID")
        if not MIN_BUDGET <= self.budget_pairs <= MAX_BUDGET:
            raise UserError(f"--budget-pairs must be from {MIN_BUDGET} to {MAX_BUDGET}, not {self.budget_pairs}")
        for option, given in (("--alpha", self.alpha), ("--noninferior", self.noninferior)):
            if given is not None and not 0 < given < 1:
                raise UserError(f"{option} must be between 0 and 1, not {given}")
        file, name = split(self.operand)
        harness = load(file).harness(name)
        changes = {"sandbox": False} if self.no_sandbox else {}
        found = gather([file, *self.goal_files], goals=self.goals, changes=changes)
        (arm,) = [arm for arm in found.arms if arm.file == str(file.resolve()) and arm.harness == harness.name]
        if all(goal.held_out for goal in found.goals):
            raise UserError("all of these goals are held out; changes are chosen by goals that are not")
        return Sources((arm,), {arm.name: found.harnesses[arm.name]}, found.goals, found.goal_files)

    def tuning(self, sources: Sources, site: Site) -> Tuning:
        """A new one."""
        goals = [goal_facts(goal, sources.goal_files[goal.name]) for goal in sources.goals]
        search = [goal for goal in goals if not goal.held_out]
        (arm,) = sources.arms
        return Tuning(
            id="t_" + secrets.token_hex(6),
            created_at=now(),
            start=arm_facts(arm, sources.harnesses[arm.name]),
            search_goals=search,
            confirm_goals=[goal for goal in goals if goal.held_out] or search,
            model=model_facts(site.model),
            budget_pairs=self.budget_pairs,
            alpha=self.alpha,
            base_seed=secrets.randbelow(2**31) if self.seed is None else self.seed,
            noninferior=self.noninferior,
            servers=site.named_servers,
            serve=site.serve,
            asked_model=site.asked_model,
        )

    def require_nothing(self) -> None:
        """With --resume all of it is known already. Raises `UserError`."""
        given = (self.operand, self.goal_files, self.goals, self.noninferior, self.no_sandbox)
        if any(given) or self.seed is not None or self.alpha != 0.05 or self.budget_pairs != BUDGET_PAIRS:
            raise UserError("--resume goes on with what was asked then; leave FILE, goals, budget, alpha and seed out")


def _sources_of(tuning: Tuning) -> Sources:
    """A stored tuning's harness and goals as they are now. Raises `UserError` when they are not what they were."""
    arm = tuning.start.arm
    harness = harness_of(arm, load(str(arm.file)))
    if harness.fingerprint() != tuning.start.hash:
        changed = explain_difference(tuning.start.parts, harness.parts())
        raise UserError(f"{arm.file}: harness {arm.harness} has changed since ({changed}); tune it anew")
    goals: dict[str, Goal] = {}
    files: dict[str, str] = {}
    for known in [*tuning.search_goals, *tuning.confirm_goals]:
        goal = load(str(known.file)).goal(known.name)
        if goal.fingerprint() != known.hash:
            raise UserError(f"{known.file}: goal {known.name} has changed since; tune anew")
        goals[goal.name], files[goal.name] = goal, str(known.file)
    return Sources((arm,), {arm.name: harness}, tuple(goals.values()), files)


def _default_out(sources: Sources) -> Path:
    base = Path(str(sources.arms[0].file))
    return base.with_name(f"{base.stem}_tuned.py")


def _hold(stack: ExitStack, tuning: Tuning, site: Site) -> None:
    """One process at a time works at a tuning, and with the model it is of. Raises `UserError`."""
    if tuning.model.hash != site.model.hash:
        raise UserError(f"{site.url} serves another model than tuning {tuning.id} is of, which is {tuning.model.name}")
    try:
        stack.enter_context(run_lock(f"tuning {tuning.id}"))
    except LockHeld as error:
        raise UserError(f"tuning {tuning.id} is under way: {error}") from error


def _exit_code(tuning: Tuning) -> int:
    screened = [entry for entry in tuning.entries if entry.screened_pairs]
    return 1 if screened and all(entry.screened_difference is None for entry in screened) else 0
