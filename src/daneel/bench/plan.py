"""What a measurement is of: arms, goals, model, seeds. Stored with its trials, so that hashes can be explained later on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from daneel import __version__
from daneel.bench.record import Trial
from daneel.bench.slot import Arm, Slot, seed_of, settles
from daneel.bench.sources import Sources
from daneel.bench.trial import ModelIdentity, now
from daneel.harness.definition import Goal, Harness


class ArmFacts(Struct, frozen=True, kw_only=True):
    """An arm, and what its harness was: *H*, the hash of each part of it, and what the model is shown of its tools."""

    arm: Arm
    hash: str
    parts: dict[str, str]
    system: str | None
    declarations: list[dict[str, Any]]
    temperature: float | None = None
    first_tool_choice: str | None = None
    sources: dict[str, str] = {}
    """The source of each tool."""

    @property
    def name(self) -> str:
        return self.arm.name


class GoalFacts(Struct, frozen=True, kw_only=True):
    """A goal: *G*, the hash of each part of it, and what is known of it."""

    name: str
    prompt: str
    hash: str
    parts: dict[str, str]
    file: str | None = None
    has_setup: bool = False
    min_turns: int | None = None
    held_out: bool = False


class ModelFacts(Struct, frozen=True, kw_only=True):
    """*M*, and what the server said of the model that was hashed."""

    name: str
    hash: str
    verified: bool
    facts: dict[str, Any] = {}


class Plan(Struct, frozen=True, kw_only=True):
    """One measurement. `kind`: "measure", "compare", …; `options`: what that kind needs to know besides."""

    kind: str
    arms: list[ArmFacts]
    goals: list[GoalFacts]
    model: ModelFacts
    num_trials: int
    """Of each arm on each goal; of a comparison, the most pairs it may take."""
    base_seed: int
    servers: list[str] = []
    serve: str | None = None
    asked_model: str | None = None
    """The server's model that was asked for by name."""
    options: dict[str, Any] = {}
    id: str = field(default_factory=lambda: "m_" + secrets.token_hex(6))
    created_at: str = field(default_factory=now)
    daneel: str = __version__

    def slots(self) -> Iterator[Slot]:
        """Every place in the order of execution: round-robin, each round beginning with the next harness.

        So a machine that slows down, or a cache that warms up, meets all harnesses alike.
        """
        for index in range(self.num_trials):
            for number, goal in enumerate(self.goals):
                yield from self.pair(index, goal.name, turn=index + number)

    def pair(self, index: int, goal: str, *, turn: int = 0) -> list[Slot]:
        """The places of one goal and seed, one for each arm; the arm that comes first is number `turn` (modulo)."""
        start = turn % len(self.arms)
        seed = seed_of(self.base_seed, index)
        return [
            Slot(measurement=self.id, index=index, arm=facts.arm, goal=goal, seed=seed)
            for facts in self.arms[start:] + self.arms[:start]
        ]

    def arm(self, name: str) -> ArmFacts:
        """The arm of this name. Raises KeyError."""
        return {arm.name: arm for arm in self.arms}[name]

    def goal(self, name: str) -> GoalFacts:
        """The goal of this name. Raises KeyError."""
        return {goal.name: goal for goal in self.goals}[name]


def arm_facts(arm: Arm, harness: Harness) -> ArmFacts:
    """What is kept of an arm; `harness` has the arm's changes in it."""
    return ArmFacts(
        arm=arm,
        hash=harness.fingerprint(),
        parts=harness.parts(),
        system=harness.system,
        declarations=harness.declarations(),
        temperature=harness.temperature,
        first_tool_choice=harness.first_tool_choice,
        sources={tool.name: tool.source for tool in harness.tools},
    )


def goal_facts(goal: Goal, file: str | None = None) -> GoalFacts:
    """What is kept of a goal."""
    return GoalFacts(
        name=goal.name,
        prompt=goal.prompt,
        hash=goal.fingerprint(),
        parts=goal.parts(),
        file=file,
        has_setup=goal.setup is not None,
        min_turns=goal.min_turns,
        held_out=goal.held_out,
    )


def model_facts(model: ModelIdentity) -> ModelFacts:
    """What is kept of a model."""
    return ModelFacts(name=model.name, hash=model.hash, verified=model.verified, facts=dict(model.facts))


def plan_of(sources: Sources, model: ModelIdentity, *, kind: str, **more: Any) -> Plan:
    """A plan of what stands in files. `more`: the other fields of `Plan`."""
    arms = [arm_facts(arm, sources.harnesses[arm.name]) for arm in sources.arms]
    goals = [goal_facts(goal, sources.goal_files[goal.name]) for goal in sources.goals]
    return Plan(kind=kind, arms=arms, goals=goals, model=model_facts(model), **more)


def inline_plan(
    harnesses: Mapping[str, Harness], goals: Sequence[Goal], model: ModelIdentity, *, kind: str = "measure", **more: Any
) -> Plan:
    """A plan of harnesses and goals that exist in this process, as simulations have them."""
    arms = [arm_facts(Arm(name=name, harness=name), harness) for name, harness in harnesses.items()]
    return Plan(kind=kind, arms=arms, goals=[goal_facts(goal) for goal in goals], model=model_facts(model), **more)


def remaining(slots: Iterator[Slot], stored: Sequence[Trial]) -> Iterator[Slot]:
    """Those places that `stored` trials have not filled for good, each with the attempt that is next."""
    last: dict[tuple[str, str, int], Trial] = {}
    for trial in stored:
        last[trial.harness, trial.goal, trial.index] = trial
    for slot in slots:
        before = last.get((slot.arm.name, slot.goal, slot.index))
        if before is None:
            yield slot
        elif not settles(before):
            yield replace(slot, attempt=before.attempt + 1)


def in_order(slots: Iterator[Slot], trials: Sequence[Trial]) -> list[Trial]:
    """`trials` in the order of their places, in which one worker alone would have run them.

    So the numbers are the same to the last digit, however many ran them.
    """
    places = {(slot.arm.name, slot.goal, slot.index): number for number, slot in enumerate(slots)}
    return sorted(trials, key=lambda trial: (places[trial.harness, trial.goal, trial.index], trial.attempt))


def lost_trial(slot: Slot, plan: Plan, *, attempt: int, why: str) -> Trial:
    """The row of a place that was left without any trial's end having been seen."""
    return Trial(
        measurement=slot.measurement,
        index=slot.index,
        attempt=attempt,
        harness=slot.arm.name,
        goal=slot.goal,
        model=plan.model.name,
        seed=slot.seed,
        started_at=now(),
        run_id=None,
        stop_reason="invalid",
        achieved=None,
        not_scored=why,
        harness_hash=plan.arm(slot.arm.name).hash,
        model_hash=plan.model.hash,
        model_verified=plan.model.verified,
        goal_hash=plan.goal(slot.goal).hash,
    )
