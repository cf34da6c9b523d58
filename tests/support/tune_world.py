"""A world for tuning in which the E of every harness is known: it follows from how its tools are named, described and gated.

The best harness has `look_up`, "Look up a word in the glossary", and `add_note`. Each fault costs a turn, or a share of the
goals that are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daneel import Harness, goal, tool
from daneel.bench.finding import Finding, Gain
from daneel.bench.lint.checks import lint
from daneel.bench.plan import Plan, arm_facts, goal_facts, model_facts
from daneel.bench.record import Trial
from daneel.bench.runners.runner import Runner
from daneel.bench.slot import Arm, Slot
from daneel.bench.store import TrialStore
from daneel.bench.trial import ModelIdentity
from daneel.bench.tune.candidates import Propose, no_proposals
from daneel.bench.tune.ledger import LedgerStore, Tuning
from daneel.bench.tune.stages import Stages
from daneel.bench.tune.tuning import Tuner
from daneel.harness.definition import Goal
from tests.support.trials import KnownArm, SimulatedRunner


def look_up(word: str) -> str:
    """Look up a word in the glossary"""
    return f"{word}: a word."


def add_note(text: str) -> str:
    """Keep a note for the answer"""
    return "kept"


def show_table(word: str) -> str:
    """Show every entry of the glossary"""
    return "a table"


def old_search(word: str) -> str:
    """Search the index of last year"""
    return "nothing"


@tool
def weigh(grams: int) -> str:
    """Weigh a parcel"""
    return "{}"


@goal(prompt="What does harbour mean?")
def harbour(trial) -> bool:
    return True


@goal(prompt="What does lantern mean?")
def lantern(trial) -> bool:
    return True


@goal(prompt="What does meadow mean?", held_out=True)
def meadow(trial) -> bool:
    return True


@goal(prompt="What does orchard mean?", held_out=True)
def orchard(trial) -> bool:
    return True


BEST = Harness(system="glossary", tools=[tool(look_up), tool(add_note)])

BAD_STARTS = {
    # no description, and a tool that stands in for the right one and takes a turn more
    "undescribed": Harness(system="glossary", tools=[tool(description="TODO")(look_up), tool(add_note), tool(show_table)]),
    # a tool that fails, tried first; and one that is called too early
    "failing": Harness(system="glossary", tools=[tool(old_search), tool(look_up), tool(add_note)]),
    # both tools undescribed, a failing one, an overlap
    "everything": Harness(
        system="glossary", tools=[tool(old_search), tool(description="TODO")(look_up), tool(add_note), tool(show_table)]
    ),
}


def arm_for(harness: Harness) -> KnownArm:
    """What a harness of this world does: each fault costs a turn or a third of the goals."""
    names = {each.name for each in harness.tools}
    right = next((each for each in harness.tools if each.function is look_up), None)
    chance, turns = 0.95, 2
    if right is None:
        return KnownArm(((1.0, False, 4),))
    if not right.description.startswith("Look up"):
        chance *= 0.6
    turns += ("old_search" in names) + ("show_table" in names)
    if not any(each.function is add_note for each in harness.tools):
        chance *= 0.5
    slow = 0.2 * chance
    return KnownArm(((chance - slow, True, turns), (slow, True, turns + 1), (1 - chance, False, turns)))


def findings_for(harness: Harness) -> list[Finding]:
    """What diagnosis would say: the faults there are, and two that are none."""
    names = [each.name for each in harness.tools]
    found = lint("H", harness.declarations())

    def add(kind: str, tools: Sequence[str], gain: float | None = None, **data: Any) -> None:
        if all(name in names for name in tools):
            about = {"text": f"{kind} of {', '.join(tools)}", "advice": "-", "expected_gain": Gain(gain, "-"), "data": data}
            found.append(Finding(kind=kind, harness="H", tools=tuple(tools), **about))

    add("always_failing", ["old_search"], 0.3)
    add("overlap", ["show_table", "look_up"], 0.2, way="alternatives", keep="look_up")
    add("overlap", ["look_up", "add_note"], 0.2, way="alternatives", keep="look_up")
    add("gate", ["add_note", "look_up"], 0.0, requires="look_up")
    return found


@dataclass
class StoringRunner:
    """A simulated runner that stores its trials, as runners do; Ctrl-C after so many of all runners' trials."""

    simulated: SimulatedRunner
    store: TrialStore
    world: World

    def run(self, slots: Iterator[Slot]) -> Generator[Trial, None, None]:
        """See `Runner`."""
        for trial in self.simulated.run(slots):
            if self.world.stop_after is not None and self.world.num_run >= self.world.stop_after:
                raise KeyboardInterrupt
            self.world.num_run += 1
            self.store.add(trial)
            yield trial


@dataclass(kw_only=True)
class World:
    """Tunes a harness of this world in a store of its own."""

    store: TrialStore
    ledgers: LedgerStore
    luck: str = ""
    arm_for: Callable[[Harness], KnownArm] = arm_for
    findings_for: Callable[[Harness], list[Finding]] = findings_for
    propose: Propose = no_proposals
    goals: Sequence[Goal] = (harbour, lantern, meadow, orchard)
    invalid: float = 0.0
    num_at_once: int = 1
    stop_after: int | None = None
    num_run: int = 0
    said: list[str] = field(default_factory=list)

    def tuning(self, start: Harness, *, budget_pairs: int = 400, id: str = "t_1", **more: Any) -> Tuning:
        """A tuning that has not begun."""
        facts = [goal_facts(each) for each in self.goals]
        held_out = [each for each in facts if each.held_out]
        return Tuning(
            id=id,
            created_at="2026-12-01T00:00:00+00:00",
            start=arm_facts(Arm(name="H", harness="H"), start),
            search_goals=[each for each in facts if not each.held_out],
            confirm_goals=held_out or facts,
            model=model_facts(ModelIdentity("scripted", "m", True)),
            budget_pairs=budget_pairs,
            base_seed=more.pop("base_seed", 1),
            alpha=more.pop("alpha", 0.05),
            **more,
        )

    def tune(self, tuning: Tuning, start: Harness) -> Tuning:
        """Do it, or go on with it."""
        stages = Stages(
            tuning=tuning,
            harness=start,
            store=self.store,
            runner_of=self._runner_of,
            tell=lambda num, what: self.said.append(what),
        )
        tuner = Tuner(
            stages=stages,
            findings_of=lambda measurement, arm, harness: self.findings_for(harness),
            propose=self.propose,
            save=self.ledgers.save,
        )
        return tuner.run()

    def _runner_of(self, plan: Plan, harnesses: Mapping[str, Harness]) -> Runner:
        arms = {name: self.arm_for(harness) for name, harness in harnesses.items()}
        if self.invalid:
            arms = {name: KnownArm(arm.outcomes, self.invalid) for name, arm in arms.items()}
        simulated = SimulatedRunner(arms, luck=self.luck, shared=0.5, num_at_once=self.num_at_once)
        return StoringRunner(simulated, self.store, self)
