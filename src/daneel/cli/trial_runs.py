"""What every command that runs trials shares: checks before the first, a server, a stored plan, workers, a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from daneel.bench.goal_check import require_sound_goals
from daneel.bench.plan import Plan
from daneel.bench.runners.workers import WorkersRunner
from daneel.bench.sources import Sources, harness_of
from daneel.bench.store import TrialStore
from daneel.bench.trial import ModelIdentity, identify
from daneel.cli.approve import warn_without_sandbox
from daneel.cli.connection import connect, open_transcripts
from daneel.cli.server_options import Door
from daneel.errors import UserError
from daneel.harness.credentials import check_encrypted
from daneel.harness.files import HarnessFile, load
from daneel.harness.run_lock import LockHeld, run_lock
from daneel.harness.server_url import base_of
from daneel.harness.tools.examples import require_sound

MAX_WORKERS = 64


@dataclass(frozen=True)
class Site:
    """Where trials are run: the servers, how to get in, and what they serve."""

    servers: list[str]
    url: str
    model: ModelIdentity
    asked_model: str | None
    door: Door
    serve: str | None

    @property
    def named_servers(self) -> list[str]:
        """As a plan keeps them: none where the server is our own, and has another address next time."""
        return [] if self.serve is not None else self.servers


def find_site(stack: ExitStack, *, server: Sequence[str] | None, serve: str | None, model: str | None, door: Door) -> Site:
    """A server that has answered, and the identity of what it serves. Raises `UserError`, see `connect`."""
    for address in server or []:
        check_encrypted(base_of(address), insecure_http=door.insecure_http)
    client, url = connect(stack, server=server, serve=serve, model=model, door=door)
    ours = str(Path(serve).resolve()) if serve is not None and Path(serve).exists() else serve
    return Site(list(server) if server else [url], url, identify(client), model, door, ours)


def check_sources(sources: Sources) -> None:
    """Everything that can be known to be wrong before any trial. Raises `UserError`."""
    for harness in sources.harnesses.values():
        warn_without_sandbox(harness)
    require_sound(tool for harness in sources.harnesses.values() for tool in harness.tools)
    require_sound_goals(sources.goals)


def runner_of(stack: ExitStack, plan: Plan, store: TrialStore, site: Site, *, parallel: int) -> WorkersRunner:
    """Workers for a plan that is stored already."""
    if not 1 <= parallel <= MAX_WORKERS:
        raise UserError(f"--parallel must be from 1 to {MAX_WORKERS}, not {parallel}")
    kept = open_transcripts(stack, {})
    return WorkersRunner(
        plan=plan,
        store=store,
        servers=site.servers,
        num_workers=parallel,
        keys=site.door.read_keys() or None,
        asked_model=site.asked_model,
        ca_cert=None if site.door.ca_cert is None else Path(site.door.ca_cert).resolve(),
        insecure_http=site.door.insecure_http,
        transcripts=kept is not None,
    )


def hold(stack: ExitStack, plan: Plan) -> None:
    """One process at a time may add trials to a measurement. Raises `UserError`."""
    try:
        stack.enter_context(run_lock(f"measurement {plan.id}"))
    except LockHeld as error:
        raise UserError(f"measurement {plan.id} is under way: {error}") from error


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[int, str], None]]:
    """On standard error. What it gives is called with how many places were filled just now, and what to say of all so far."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=True)),
    )
    # the time left is told from an hour's speed: a trial may take longer than the half minute that rich looks back
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600.0) as progress:
        task = progress.add_task("first trial", total=total)

        def update(advance: int, said: str) -> None:
            progress.update(task, advance=advance, description=escape(said))

        yield update


def unfinished(store: TrialStore, measurement: str) -> tuple[Plan, Sources]:
    """A stored measurement and its sources as they are now. Raises `UserError` when they are not what they were."""
    plan = store.plan(measurement)
    arms = []
    harnesses = {}
    held: dict[str, HarnessFile] = {}

    def file_of(path: str | None) -> HarnessFile:
        if path is None:
            raise UserError(f"measurement {plan.id} is of harnesses that were in no file; it cannot be gone on with")
        if path not in held:
            held[path] = load(path)
        return held[path]

    for facts in plan.arms:
        harness = harness_of(facts.arm, file_of(facts.arm.file))
        if harness.fingerprint() != facts.hash:
            changed = explain_difference(facts.parts, harness.parts())
            raise UserError(f"{facts.arm.file}: harness {facts.arm.harness} has changed since ({changed}); measure it anew")
        arms.append(facts.arm)
        harnesses[facts.name] = harness
    goals = []
    for known in plan.goals:
        goal = file_of(known.file).goal(known.name)
        if goal.fingerprint() != known.hash:
            changed = explain_difference(known.parts, goal.parts())
            raise UserError(f"{known.file}: goal {known.name} has changed since ({changed}); measure it anew")
        goals.append(goal)
    return plan, Sources(tuple(arms), harnesses, tuple(goals), {goal.name: str(goal.file) for goal in plan.goals})


def require_same_model(plan: Plan, site: Site) -> None:
    """Raises `UserError` when what is served now is not what was measured."""
    if plan.model.hash == site.model.hash and plan.model.verified == site.model.verified:
        return
    facts, now = plan.model.facts, site.model.facts
    changed = [
        f"{name} was {facts.get(name)!r}, is {now.get(name)!r}"
        for name in dict.fromkeys([*facts, *now])
        if facts.get(name) != now.get(name)
    ]
    if plan.model.name != site.model.name and not plan.model.verified:
        changed.insert(0, f"its name was {plan.model.name}, is {site.model.name}")
    raise UserError(f"{site.url} serves another model than measurement {plan.id} is of: {'; '.join(changed) or 'another hash'}")


def explain_difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Which parts of two harnesses, or two goals, are not the same."""
    parts = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    return ", ".join(parts) or "nothing that is known"
