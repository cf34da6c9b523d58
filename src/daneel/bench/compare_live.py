"""A comparison by new trials: which are to be run next, until the comparison says that it knows enough."""

from __future__ import annotations

import random
import secrets
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from daneel.bench.compare import Comparison, Question
from daneel.bench.plan import Plan, remaining
from daneel.bench.record import Trial
from daneel.bench.runners.runner import Runner
from daneel.bench.slot import Slot, seed_of
from daneel.bench.store import TrialStore
from daneel.errors import UserError

KIND = "compare"
"""Of a `Plan`. Its `num_trials` is `Question.max_pairs`."""
MAX_CONTINUED = 1000
MAX_ROUNDS = 100_000
"""Of a plan: they are drawn beforehand."""


def options(question: Question, *, continues: str | None = None, horizons: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """What a plan holds of a comparison besides arms and goals.

    `continues`: the measurement whose trials come first. `horizons`: see `Comparison`.
    """
    kept = [list(each) for each in horizons] or [[0, question.max_pairs]]
    return {"question": msgspec.to_builtins(question), "continues": continues, "horizons": kept}


def comparison_of(plan: Plan) -> Comparison:
    """A comparison as it was planned, without trials yet. Raises `UserError` when `plan` is of another kind, or broken."""
    if plan.kind != KIND:
        raise UserError(f"{plan.id} is no comparison but of the kind {plan.kind}")
    try:
        question = msgspec.convert(plan.options.get("question"), Question)
        horizons = msgspec.convert(plan.options.get("horizons"), list[tuple[int, int]])
    except msgspec.ValidationError as error:
        raise UserError(f"the plan of {plan.id} cannot be read: {error}") from error
    if question.max_pairs > MAX_ROUNDS:
        raise UserError(f"a comparison can have at most {MAX_ROUNDS} pairs, not {question.max_pairs}")
    if not plan.goals or 0 not in dict(horizons) or any(horizon < 1 for _, horizon in horizons):
        raise UserError(f"the plan of {plan.id} has no goals, or horizons that make no sense: {horizons}")
    goals = draw_goals([goal.name for goal in plan.goals], question.max_pairs, plan.base_seed)
    return Comparison([arm.name for arm in plan.arms], question, [[goal] for goal in goals], horizons)


def trials_of(store: TrialStore, plan: Plan) -> list[Trial]:
    """The trials of a plan, those of the plans that it continues first. Raises `UserError`."""
    chain = [plan]
    while (continued := chain[-1].options.get("continues")) is not None:
        if len(chain) > MAX_CONTINUED:
            raise UserError(f"{plan.id} continues more than {MAX_CONTINUED} others")
        chain.append(store.plan(str(continued)))
    return [trial for each in reversed(chain) for trial in store.trials(each.id)]


def extended(plan: Plan, stored: Sequence[Trial], max_pairs: int | None) -> Plan:
    """`plan` itself, or with more pairs a new plan that continues it. Raises `UserError` when there would be fewer.

    What is known already was found with bets that were made for the pairs planned at first, and stays as it is; from here on
    they are made for all there will be.
    """
    comparison = comparison_of(plan)
    before = comparison.question.max_pairs
    if max_pairs is None or max_pairs == before:
        return plan
    if max_pairs < before or comparison.question.fixed:
        raise UserError(f"{plan.id} was planned for {before} pairs; it can be given more, unless their number is fixed")
    for trial in stored:
        comparison.add(trial)
    horizons = [tuple(each) for each in plan.options["horizons"]] + [(comparison.num_rounds, max_pairs)]
    question = replace(comparison.question, max_pairs=max_pairs)
    return replace(
        plan,
        id="m_" + secrets.token_hex(6),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        num_trials=max_pairs,
        options=options(question, continues=plan.id, horizons=horizons),
    )


def draw_goals(names: Sequence[str], num_rounds: int, base_seed: int) -> list[str]:
    """The goal of each round, drawn with replacement: pairs are then alike, however much the goals differ.

    The same for the first rounds however many follow.
    """
    return [random.Random(f"{base_seed} goal {index}").choice(list(names)) for index in range(num_rounds)]


def slots(comparison: Comparison, plan: Plan) -> Iterator[Slot]:
    """The places to be filled, round by round, the arms of each in an order drawn for it, for as long as more are needed."""
    arms = {facts.name: facts.arm for facts in plan.arms}
    goals = draw_goals([goal.name for goal in plan.goals], comparison.question.max_pairs, plan.base_seed)
    for index, goal in enumerate(goals):
        order = list(arms)
        random.Random(f"{plan.base_seed} order {index}").shuffle(order)
        for name in order:
            if name in comparison.live_arms():
                seed = seed_of(plan.base_seed, index)
                yield Slot(measurement=plan.id, index=index, arm=arms[name], goal=goal, seed=seed)


def run(
    comparison: Comparison, runner: Runner, places: Iterator[Slot], stored: Sequence[Trial] = ()
) -> Generator[Trial, None, None]:
    """Run trials and add them to `comparison` until it is decided; give each once it is stored and added.

    `places`: what to run, as from `slots`. `stored`: trials that were made before; they are added first, and not run again.
    Raises what `runner` raises.
    """
    for trial in stored:
        comparison.add(trial)
    if not comparison.decided:
        yield from _run(comparison, runner, remaining(places, stored))


def _run(comparison: Comparison, runner: Runner, places: Iterator[Slot]) -> Generator[Trial, None, None]:
    trials = runner.run(places)
    try:
        for trial in trials:
            comparison.add(trial)
            yield trial
            if comparison.decided:
                return
    finally:
        trials.close()
