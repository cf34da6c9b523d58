"""The stages of a tuning: measurements of their own, whose trials are run, or found where they have been run before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from daneel.bench.plan import ArmFacts, GoalFacts, Plan, arm_facts, remaining
from daneel.bench.record import Trial
from daneel.bench.runners.runner import Runner
from daneel.bench.slot import Arm, Slot, seed_of, settles
from daneel.bench.store import TrialStore
from daneel.bench.tune.edits import Edit, edited
from daneel.bench.tune.ledger import Tuning
from daneel.errors import UserError
from daneel.harness.definition import Harness

KIND = "tune"
"""Of the `Plan`s of a tuning's stages."""

Arms = Mapping[str, Sequence[Edit]]
"""For each arm's name the edits of the start that make its harness."""


def stage_id(tuning: str, stage: str) -> str:
    """The id of a stage's measurement: the same whenever it is gone on with."""
    return "m_" + hashlib.sha256(f"{tuning} {stage}".encode()).hexdigest()[:12]


@dataclass(kw_only=True)
class Stages:
    """Plans and runs stages. `harness` is the start; `runner_of` and `tell`: see `Tuner`."""

    tuning: Tuning
    harness: Harness
    store: TrialStore
    runner_of: Callable[[Plan, Mapping[str, Harness]], Runner]
    tell: Callable[[int, str], None] = lambda num_trials, what: None

    @property
    def trials_left(self) -> int:
        return 2 * self.tuning.budget_pairs - self.tuning.num_trials

    def arm(self, edits: Sequence[Edit], name: str) -> Arm:
        start = self.tuning.start.arm
        changes = {**start.changes, **({"edits": msgspec.to_builtins(list(edits))} if edits else {})}
        return msgspec.structs.replace(start, name=name, changes=changes)

    def plan(self, stage: str, arms: Arms, goals: list[GoalFacts], **more: Any) -> Plan:
        """The plan of a stage, stored; the stored one where it was begun before. Raises `UserError` if that differs."""
        tuning = self.tuning
        facts: list[ArmFacts] = [arm_facts(self.arm(each, name), edited(self.harness, each)) for name, each in arms.items()]
        plan = Plan(
            id=stage_id(tuning.id, stage),
            kind=KIND,
            arms=facts,
            goals=goals,
            model=tuning.model,
            servers=tuning.servers,
            serve=tuning.serve,
            asked_model=tuning.asked_model,
            options={"tuning": tuning.id, "stage": stage},
            **more,
        )
        try:
            known = self.store.plan(plan.id)
        except UserError:
            self.store.add_plan(plan)
            return plan
        if [(arm.name, arm.hash) for arm in known.arms] != [(arm.name, arm.hash) for arm in facts]:
            raise UserError(f"tuning {tuning.id} cannot be gone on with: its stage “{stage}” would try other harnesses now")
        return known

    def runner(self, plan: Plan, arms: Arms) -> Runner:
        return self.runner_of(plan, {name: edited(self.harness, each) for name, each in arms.items()})

    def count(self, trial: Trial, what: str) -> None:
        """One more stored trial counts, if it fills its place for good."""
        if settles(trial):
            self.tuning.num_trials += 1
            self.tell(self.tuning.num_trials, what)

    def run_places(self, plan: Plan, arms: Arms, wanted: Sequence[str], indexes: Sequence[int], what: str) -> list[Trial]:
        """Fill these places, each goal in its turn; their final trials."""
        names = [goal.name for goal in plan.goals]
        places = [
            Slot(
                measurement=plan.id,
                index=index,
                arm=plan.arm(name).arm,
                goal=names[(index + plan.base_seed) % len(names)],
                seed=seed_of(plan.base_seed, index),
            )
            for index in indexes
            for name in _turned(wanted, index)
        ]
        keys = {(slot.arm.name, slot.index) for slot in places}
        found: dict[tuple[str, int], Trial] = {}

        def add(trial: Trial) -> None:
            if (trial.harness, trial.index) in keys and settles(trial):
                found[trial.harness, trial.index] = trial
                self.count(trial, what)

        stored = self.store.trials(plan.id)
        for trial in stored:
            add(trial)
        left = list(remaining(iter(places), stored))
        if left:
            with closing(self.runner(plan, arms).run(iter(left))) as trials:
                for trial in trials:
                    add(trial)
        return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0]))]


def _turned(names: Sequence[str], by: int) -> list[str]:
    start = by % len(names)
    return [*names[start:], *names[:start]]
